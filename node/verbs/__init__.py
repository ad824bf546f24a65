"""What a machine can be asked for: in a module of the verb's name a function of that name.

Its parameters are the arguments, see forms.py, and what it returns is the answer.
"""

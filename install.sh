#!/usr/bin/env bash
# Puts the command `yard` where the shell finds it, and its completion for bash and zsh: install.sh VENV [FOLDER]
# The folder is ~/.local/bin, or /usr/local/bin for root. It is the command of this checkout, from every folder.
set -euo pipefail
cd "$(dirname "$0")"
checkout=$PWD
venv=$(realpath "${1:?usage: install.sh VENV [FOLDER]}")
case $(id -u) in 0) folder=/usr/local/bin ;; *) folder=$HOME/.local/bin ;; esac
folder=${2:-$folder}
share=$(dirname "$folder")/share

mkdir -p "$folder" "$share/bash-completion/completions" "$share/zsh/site-functions"
command=$folder/yard
if [ -L "$command" ] || { [ -e "$command" ] && ! grep -q TRAINYARD_TYPES_YARD "$command"; }; then
    echo "$command is another program; it stays as it is. FOLDER= takes another place" >&2
    exit 2
fi
# -P: a module of the folder that it is called in must not stand in for one of its own.
cat >"$command" <<END
#!/usr/bin/env bash
# The yard of a checkout; \`make install\` there writes it anew.
export TRAINYARD_TYPES_YARD=1 ANSIBLE_CONFIG=$(printf %q "$checkout/ansible.cfg")
export PATH=$(printf %q "$venv/bin"):\$PATH
# A virtual environment that checkouts share (VENV=) knows the last of them alone.
export PYTHONPATH=$(printf %q "$checkout")\${PYTHONPATH:+:\$PYTHONPATH}
unset ANSIBLE_HOST_KEY_CHECKING ANSIBLE_SSH_HOST_KEY_CHECKING
exec $(printf %q "$venv/bin/python") -P -m yard "\$@"
END
chmod +x "$command"
"$venv/bin/register-python-argcomplete" --shell bash yard >"$share/bash-completion/completions/yard"
"$venv/bin/register-python-argcomplete" --shell zsh yard >"$share/zsh/site-functions/_yard"
echo "yard is $command; a new shell completes its words after TAB"
case :$PATH: in *:"$folder":*) ;; *) echo "$folder is not on PATH yet: add it in ~/.profile" ;; esac

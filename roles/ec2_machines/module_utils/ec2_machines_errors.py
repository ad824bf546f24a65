"""What the library of AWS raises, for modules that say it in words."""

try:
    from botocore.exceptions import BotoCoreError, ClientError

    AWS_ERRORS: tuple[type[Exception], ...] = (BotoCoreError, ClientError)
except ImportError:  # AnsibleAWSModule says it
    AWS_ERRORS = ()

"""torchrun, `python3 -m trainer.bench.torchrun`, on a torch that was built without libuv.

Debian's is. Across nodes torchrun takes the store over libuv and has no switch for it, other than
on a single node; the older store does the same work.
"""

import functools

import torch.distributed as dist

# Before torchrun's modules take it by name.
dist.TCPStore = functools.partial(dist.TCPStore, use_libuv=False)

from torch.distributed.run import main  # noqa: E402  # after the replacement

if __name__ == "__main__":
    main()

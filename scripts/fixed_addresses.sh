#!/usr/bin/env bash
# fixed_addresses.sh COMMAND...: runs it without address randomisation where that is permitted.
# GCC 12's ThreadSanitizer stops with "unexpected memory mapping" on kernels that randomise more bits
# than it expects (vm.mmap_rnd_bits over 28). In containers that forbid the switch it runs as it is.
set -euo pipefail
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  exec setarch "$(uname -m)" --addr-no-randomize "$@"
fi
exec "$@"

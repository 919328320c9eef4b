# shellcheck shell=bash
# The real clients of tests/clients in build/deps/clients: packages/ holds Python packages that only those
# tests see (PYTHONPATH, and Python's -S hides Debian's), perf_analyzer starts Triton's load generator.
# Its program wants a newer C library than bookworm's: Debian 13's lies beside it in libc/.

# As stamp_of, but for what Python leaves behind when the packages are used.
clients_stamp() {
  {
    sha256_of scripts/parts/clients.txt scripts/parts/archive_clients.txt scripts/clients.sh
    find "$1" -type f ! -name stamp ! -name '*.pyc' -printf '%P %s\n' 2>/dev/null | sort
  } | sha256sum | cut -d' ' -f1
}

clients_ready() { [[ $(cat "$1/stamp" 2>/dev/null) == "$(clients_stamp "$1")" ]]; }

install_client_packages() {
  local -r dir=$1 log=$2
  local platform platforms=()
  for platform in manylinux_2_{38,28,27,24,17,12,5}_x86_64 manylinux{2014,2010,1}_x86_64; do
    platforms+=(--platform "$platform")
  done
  PIP_REQUIRE_VIRTUALENV=0 PIP_USER=0 PIP_ROOT_USER_ACTION=ignore quietly "$log" /usr/bin/python3 -m pip install \
    --disable-pip-version-check --require-hashes --requirement scripts/parts/clients.txt --target "$dir" \
    --no-compile --no-deps --only-binary=:all: --implementation cp --python-version 3.11 \
    --abi cp311 --abi abi3 --abi none "${platforms[@]}"
}

# fetch_clients HOME: makes HOME anew; it appears only when it is whole.
fetch_clients() {
  local home=$1 work new name
  work=$(mktemp -d "$(dirname "$home")/clients.XXXXXX")
  # shellcheck disable=SC2064  # the folder of this call
  trap "rm -rf '$work'" EXIT
  new=$work/new
  say "Fetching the clients of the tests: $(awk '$1 ~ /^(tritonclient|perf-analyzer|kserve)==/ {printf "%s%s", sep, $1; sep = ", "}' scripts/parts/clients.txt)"
  install_client_packages "$new/packages" "$work/log" ||
    download_failed "pip could not fetch the clients that tests/clients runs"
  for name in libc6 libstdc++6; do
    fetch_deb "$name" "$work/debs" || deb_failed "could not fetch $name for perf_analyzer" "$work/debs"
    dpkg-deb -x "$work/debs/$name.deb" "$work/root"
  done
  mkdir "$new/libc"
  cp -L "$work"/root/usr/lib/x86_64-linux-gnu/{ld-linux-x86-64,libc,libm,libstdc++}.so.[26] "$new/libc/"
  cp -L "$work"/root/usr/lib/x86_64-linux-gnu/lib{dl,pthread,resolv,rt}.so.[012] "$new/libc/"
  cat >"$new/perf_analyzer" <<'TEXT'
#!/bin/sh
here=$(dirname "$0")
exec "$here/libc/ld-linux-x86-64.so.2" --library-path "$here/libc:/usr/lib/x86_64-linux-gnu" \
  "$here/packages/perf_analyzer/bin/perf_analyzer" "$@"
TEXT
  chmod +x "$new/perf_analyzer"
  "$new/perf_analyzer" --version >"$work/log" 2>&1 ||
    die "perf_analyzer does not run on this machine" "$(tail -n 3 "$work/log")"
  clients_stamp "$new" >"$work/stamp"
  mv "$work/stamp" "$new/"
  rm -rf "$home"
  mv "$new" "$home"
  rm -rf "$work"
  trap - EXIT
}

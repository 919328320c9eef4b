# shellcheck shell=bash
# How the scripts speak: steps on standard output, failures on standard error with what to do next.

say() { printf '%s\n' "$*"; }

die() {
  printf 'error: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# download_failed WHAT [ADVICE...]: dies with what helps after a failed download.
download_failed() {
  die "$1" "Check the network, and the proxy and certificate settings of apt and pip: theirs are used." \
    "Then run ./dev setup again; it goes on where it stopped." "${@:2}"
}

# quietly LOG COMMAND...: runs with the output in LOG; shows its end only when the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return
  local status=$?
  printf -- '--- %s failed; the end of %s:\n' "$1" "$log" >&2
  tail -n 20 "$log" >&2
  return "$status"
}

# sha256_of FILE...: one hash over the files' names and contents.
sha256_of() { sha256sum "$@" | sha256sum | cut -d' ' -f1; }

# stamp_of FOLDER LIST...: one hash over these files and the names and sizes of all that FOLDER holds.
stamp_of() {
  local folder=$1
  shift
  {
    sha256_of "$@"
    find "$folder" -type f ! -name stamp -printf '%P %s\n' 2>/dev/null | sort
  } | sha256sum | cut -d' ' -f1
}

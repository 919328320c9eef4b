#!/usr/bin/env bash
# setup.sh PART...: makes this machine able to do what the parts name; quick when it already is.
#   build  compiler, libraries (Debian packages)     runtime  ONNX Runtime in build/deps/onnxruntime
#   test   test tools (Debian packages), Alertmanager in build/deps/alertmanager
#   gpu    the software GPU in build/deps/software-gpu
#   clients  the clients of other servers that tests/clients runs, in build/deps/clients
#   bench  npm (Debian package)                      lint     clang and clang-tidy (Debian packages)
# Packages and their reasons are in scripts/parts/. It writes below build/ and, for Debian packages, calls apt-get.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/say.sh
. scripts/say.sh
# shellcheck source=scripts/archive.sh
. scripts/archive.sh
# shellcheck source=scripts/onnxruntime.sh
. scripts/onnxruntime.sh
# shellcheck source=scripts/software_gpu.sh
. scripts/software_gpu.sh
# shellcheck source=scripts/alertmanager.sh
. scripts/alertmanager.sh
# shellcheck source=scripts/clients.sh
. scripts/clients.sh

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

check_system() {
  [[ $(uname -m) == x86_64 ]] || die "$(uname -m) is not supported yet: the libraries that are fetched are for x86_64"
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [[ $codename == bookworm ]] || die "setup knows Debian 12 (bookworm), not ${codename:-this system}" \
    "Install what scripts/parts/debian.txt lists (the part build), and an ONNX Runtime with its headers, then:" \
    "cmake --preset release -DGRADUS_ONNXRUNTIME_ROOT=DIR && cmake --build --preset release"
}

# missing_packages PART...: "PACKAGE WHY" for each listed package that is not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
  awk -v parts=" $* " -v installed="$(tr '\n' ' ' <<<"$installed")" '
    BEGIN { split(installed, list, " "); for (i in list) have[list[i]] = 1 }
    /^[^#]/ && index(parts, " " $1 " ") && !($2 in have) {
      printf "%s", $2; for (i = 3; i <= NF; i++) printf " %s", $i; print ""
    }' scripts/parts/debian.txt
}

install_packages() {
  local missing names name why
  missing=$(missing_packages "$@")
  [[ -n $missing ]] || return 0
  mapfile -t names < <(cut -d' ' -f1 <<<"$missing")
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    die "not root, and there is no sudo; run this as root, then ./dev again:" \
      "apt-get update && apt-get install --no-install-recommends ${names[*]}"
  fi
  say "Installing Debian packages with apt-get$( ((EUID == 0)) || echo ' (through sudo)'):"
  while read -r name why; do printf '  %-20s %s\n' "$name" "$why"; done <<<"$missing"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  if ! apt-cache show "${names[@]}" >/dev/null 2>&1; then
    quietly build/setup-update.log as_root "${apt[@]}" update || download_failed "apt-get update failed"
  fi
  local install=("${apt[@]}" install -y --no-install-recommends "${names[@]}")
  if ! as_root "${install[@]}" >build/setup-install.log 2>&1; then
    # Most often the lists are older than the mirror's files.
    quietly build/setup-update.log as_root "${apt[@]}" update || download_failed "apt-get update failed"
    quietly build/setup-install.log as_root "${install[@]}" ||
      download_failed "apt-get could not install the packages above"
  fi
}

main() {
  local part parts=" $* " deps=$PWD/build/deps packages=()
  for part in build test gpu bench lint; do
    [[ $parts == *" $part "* ]] && packages+=("$part")
  done
  check_system
  mkdir -p "$deps"
  exec 9>"$deps/.lock"
  flock 9  # one set-up at a time in a checkout
  install_packages "${packages[@]}"
  if [[ $parts == *" runtime "* ]] && ! onnxruntime_ready "$deps/onnxruntime"; then
    fetch_onnxruntime "$deps/onnxruntime"
  fi
  if [[ $parts == *" gpu "* ]] && ! software_gpu_ready "$deps/software-gpu"; then
    fetch_software_gpu "$deps/software-gpu"
  fi
  if [[ $parts == *" test "* ]] && ! alertmanager_ready "$deps/alertmanager"; then
    fetch_alertmanager "$deps/alertmanager"
  fi
  if [[ $parts == *" clients "* ]] && ! clients_ready "$deps/clients"; then
    fetch_clients "$deps/clients"
  fi
}

main "$@"

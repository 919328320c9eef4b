# shellcheck shell=bash
# Fetches one package of another Debian suite with apt itself, without touching the system: private
# lists, cache and sources, from the mirror that this machine already uses, signed by Debian's keyring.

# The address of the main Debian archive among the machine's own sources (not security, not others').
debian_mirror() {
  apt-get indextargets --format "\$(ORIGIN) \$(LABEL) \$(CODENAME) \$(REPO_URI)" \
    'Created-By: Packages' 2>/dev/null |
    awk '$1 == "Debian" && $2 == "Debian" && $3 == "bookworm" && $4 !~ /^cdrom:/ {print $4; exit}'
}

# fetch_deb NAME DIR: leaves DIR/NAME.deb, and in DIR/version the version that it is. Returns 1 with
# the reason in DIR/log when nothing could be fetched.
fetch_deb() {
  local name=$1 dir=$2 version suite sha256 mirror found
  read -r version suite sha256 < <(awk -v n="$name" '$1 == n {print $2, $3, $4}' scripts/parts/archive*.txt)
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
  : >"$dir/status"
  mirror=$(debian_mirror)
  if [[ -z $mirror ]]; then
    as_root apt-get -q update >"$dir/log" 2>&1 || return 1  # a machine whose lists were deleted
    mirror=$(debian_mirror)
  fi
  if [[ -z $mirror ]]; then
    echo "apt knows no source of Debian's main archive for bookworm" >"$dir/log"
    return 1
  fi
  printf 'deb [arch=amd64 target=Packages lang=none signed-by=%s] %s %s main\n' \
    /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$suite" >"$dir/sources.list"
  local options=(
    -o "Dir::State::Lists=$dir/lists" -o "Dir::State::status=$dir/status" -o "Dir::Cache=$dir/cache"
    -o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    -o APT::Architecture=amd64 -o APT::Update::Error-Mode=any -o Acquire::Retries=3
    -o "APT::Sandbox::User=$(id -un)"
  )
  apt-get "${options[@]}" -q update >"$dir/log" 2>&1 || return 1
  found=$(apt-cache "${options[@]}" madison "$name" | awk -F' *[|] *' '{print $2}')
  if ! grep -qxF "$version" <<<"$found"; then
    found=$(head -n 1 <<<"$found")
    if [[ -z $found ]]; then
      echo "$suite has no package $name" >>"$dir/log"
      return 1
    fi
    say "  $suite has moved on: $name $found instead of the pinned $version"
    version=$found
    sha256=-  # Debian's signature covers it; only the pinned file has a hash of ours
  fi
  (cd "$dir" && apt-get "${options[@]}" -q download "$name=$version") >>"$dir/log" 2>&1 || return 1
  mv "$dir/$name"_*.deb "$dir/$name.deb"
  if [[ $sha256 != - ]] && ! sha256sum --check --status <<<"$sha256  $dir/$name.deb"; then
    die "$name $version from $mirror is not the file that scripts/parts/archive*.txt pins" \
      "sha256 expected: $sha256" "sha256 found:    $(sha256sum <"$dir/$name.deb" | cut -d' ' -f1)"
  fi
  echo "$version" >"$dir/version"
}

# deb_failed WHAT DIR [ADVICE...]: dies with the reason that fetch_deb left in DIR/log.
deb_failed() {
  tail -n 4 "$2/log" >&2
  download_failed "$1" "${@:3}"
}

# shellcheck shell=bash
# Alertmanager for the end-to-end tests in build/deps/alertmanager: Debian's program, unpacked and
# not installed, since its package would set up and start a service. It is to be run from that folder.

alertmanager_stamp() { stamp_of "$1" scripts/parts/archive_test.txt scripts/alertmanager.sh; }

alertmanager_ready() { [[ $(cat "$1/stamp" 2>/dev/null) == "$(alertmanager_stamp "$1")" ]]; }

# fetch_alertmanager HOME: makes HOME anew; it appears only when it is whole.
fetch_alertmanager() {
  local home=$1 work new
  work=$(mktemp -d "$(dirname "$home")/alertmanager.XXXXXX")
  # shellcheck disable=SC2064  # the folder of this call
  trap "rm -rf '$work'" EXIT
  say "Fetching Alertmanager for the tests from bookworm"
  fetch_deb prometheus-alertmanager "$work/deb" || deb_failed "could not fetch Alertmanager" "$work/deb"
  dpkg-deb -x "$work/deb/prometheus-alertmanager.deb" "$work/root"
  new=$work/new
  mkdir -p "$new"
  # The program opens its templates by a path that is compiled in: a relative one of the same length
  # takes its place, so that they are found without being installed.
  local installed=/usr/share/prometheus/alertmanager here
  here=.$(printf '%*s' $((${#installed} - 1)) '' | tr ' ' /)
  LC_ALL=C sed "s|$installed|$here|g" "$work/root/usr/bin/prometheus-alertmanager" >"$new/alertmanager"
  chmod +x "$new/alertmanager"
  cp "$work/root$installed"/*.tmpl "$work/root/usr/share/doc/prometheus-alertmanager/copyright" "$new/"
  alertmanager_stamp "$new" >"$work/stamp"
  mv "$work/stamp" "$new/"
  rm -rf "$home"
  mv "$new" "$home"
  rm -rf "$work"
  trap - EXIT
}

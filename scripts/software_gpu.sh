# shellcheck shell=bash
# The software GPU for tests and demos in build/deps/software-gpu: Mesa's lavapipe, a Vulkan driver
# that runs on the CPU. bookworm's own is too old for WebGPU; bookworm-backports has a newer one.
# The system's Vulkan set-up stays as it is: VK_DRIVER_FILES=build/deps/software-gpu/lvp_icd.json.

software_gpu_stamp() { stamp_of "$1" scripts/parts/archive.txt scripts/software_gpu.sh; }

software_gpu_ready() {
  [[ $(cat "$1/stamp" 2>/dev/null) == "$(software_gpu_stamp "$1")" ]] &&
    grep -qF "\"$1/libvulkan_lvp.so\"" "$1/lvp_icd.json"  # not so after the checkout was moved
}

# fetch_software_gpu HOME: makes HOME anew; it appears only when it is whole.
fetch_software_gpu() {
  local home=$1 work missing
  work=$(mktemp -d "$(dirname "$home")/software-gpu.XXXXXX")
  # shellcheck disable=SC2064  # the folder of this call
  trap "rm -rf '$work'" EXIT
  say "Fetching the software GPU driver (Mesa's lavapipe) from bookworm-backports"
  fetch_deb mesa-vulkan-drivers "$work/mesa" ||
    deb_failed "could not fetch the software GPU driver" "$work/mesa"
  dpkg-deb -x "$work/mesa/mesa-vulkan-drivers.deb" "$work/root"

  local new=$work/new
  mkdir -p "$new"
  cp "$work/root/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so" "$new/"
  cp "$work/root/usr/share/doc/mesa-vulkan-drivers/copyright" "$new/"
  missing=$(ldd "$new/libvulkan_lvp.so" | awk '/not found/ {print $1}')
  [[ -z $missing ]] || die "the software GPU driver $(cat "$work/mesa/version") needs libraries that are missing:" \
    "$missing" "add the Debian packages that hold them to scripts/parts/debian.txt, part gpu"
  sed -E "s|(\"library_path\": ).*|\1\"$home/libvulkan_lvp.so\"|" \
    "$work"/root/usr/share/vulkan/icd.d/lvp_icd*.json >"$new/lvp_icd.json"
  software_gpu_stamp "$new" >"$work/stamp"
  mv "$work/stamp" "$new/"
  rm -rf "$home"
  mv "$new" "$home"
  rm -rf "$work"
  trap - EXIT
}

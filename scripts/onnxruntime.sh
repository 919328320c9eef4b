# shellcheck shell=bash
# ONNX Runtime in build/deps/onnxruntime: include/, lib/ (the core library, the WebGPU provider,
# openvino/) and licenses/. Libraries come from PyPI's wheels, headers from Debian testing; why is in
# docs/adr/0001-onnxruntime-from-pypi.md.

readonly kOldestApi=23  # the first with the plugin-provider interface that src/runtime/ort uses
readonly kNewestApi=31  # that of the library in wheels.txt; its headers may be older, never newer
readonly kOwnRuntime="Or use an ONNX Runtime of your own: ./dev build release -DGRADUS_ONNXRUNTIME_ROOT=DIR"

onnxruntime_stamp() {
  stamp_of "$1" scripts/parts/wheels.txt scripts/parts/archive.txt scripts/onnxruntime.sh
}

onnxruntime_ready() { [[ $(cat "$1/stamp" 2>/dev/null) == "$(onnxruntime_stamp "$1")" ]]; }

# Everything that the build and the server name is there.
onnxruntime_complete() {
  local file
  for file in include/onnxruntime/onnxruntime_cxx_api.h lib/libonnxruntime.so.1 \
    lib/libonnxruntime_providers_shared.so lib/libonnxruntime_providers_webgpu.so \
    lib/openvino/libonnxruntime_providers_openvino_plugin.so; do
    [[ -s $1/$file ]] || return 1
  done
}

download_wheels() {
  local -r dir=$1
  PIP_REQUIRE_VIRTUALENV=0 quietly "$dir/log" /usr/bin/python3 -m pip download \
    --disable-pip-version-check --require-hashes --requirement scripts/parts/wheels.txt --dest "$dir" \
    --no-deps --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --abi none \
    --platform manylinux_2_28_x86_64
}

# The version of the C API that a folder of headers speaks.
api_version() { awk '$2 == "ORT_API_VERSION" {print $3}' "$1/onnxruntime_c_api.h"; }

# fetch_onnxruntime HOME: makes HOME anew; it appears only when it is whole.
fetch_onnxruntime() {
  local home=$1 work wheel api
  work=$(mktemp -d "$(dirname "$home")/onnxruntime.XXXXXX")
  # shellcheck disable=SC2064  # the folder of this call
  trap "rm -rf '$work'" EXIT
  say "Fetching ONNX Runtime: $(awk '$1 ~ /==/ {printf "%s%s", sep, $1; sep = ", "}' scripts/parts/wheels.txt)"
  download_wheels "$work/wheels" ||
    download_failed "pip could not fetch ONNX Runtime's wheels" "$kOwnRuntime"
  for wheel in "$work"/wheels/*.whl; do
    /usr/bin/python3 -m zipfile -e "$wheel" "$work/unpacked"
  done
  say "Fetching ONNX Runtime's headers from Debian testing"
  fetch_deb libonnxruntime-dev "$work/headers" ||
    deb_failed "could not fetch ONNX Runtime's headers" "$work/headers" "$kOwnRuntime"
  dpkg-deb -x "$work/headers/libonnxruntime-dev.deb" "$work/headers/root"

  local new=$work/new wheels=$work/unpacked
  mkdir -p "$new/include" "$new/lib" "$new/licenses/openvino" "$new/licenses/headers"
  cp -r "$work/headers/root/usr/include/onnxruntime" "$new/include/"
  cp "$work/headers/root/usr/share/doc/libonnxruntime-dev/copyright" "$new/licenses/headers/"
  cp "$wheels"/onnxruntime/capi/libonnxruntime.so.1.* "$new/lib/libonnxruntime.so.1"
  cp "$wheels/onnxruntime/capi/libonnxruntime_providers_shared.so" "$new/lib/"
  cp "$wheels/onnxruntime/LICENSE" "$wheels/onnxruntime/ThirdPartyNotices.txt" "$new/licenses/"
  cp "$wheels"/onnxruntime_ep_webgpu/*.so "$new/lib/"
  cp -r "$wheels/onnxruntime_ep_openvino" "$new/lib/openvino"
  mv "$new"/lib/openvino/third-party-programs.txt "$new/licenses/openvino/"
  rm -f "$new"/lib/openvino/*.py "$new/lib/openvino/cache.json"
  onnxruntime_complete "$new" || die "the packages of ONNX Runtime lack a file that was expected" \
    "the files that came: $(cd "$new" && find . -type f | sort | tr '\n' ' ')"
  api=$(api_version "$new/include/onnxruntime")
  if ((api < kOldestApi || api > kNewestApi)); then
    die "ONNX Runtime's headers $(cat "$work/headers/version") speak API $api; $kOldestApi to $kNewestApi work" \
      "$kOwnRuntime"
  fi
  onnxruntime_stamp "$new" >"$work/stamp"
  mv "$work/stamp" "$new/"
  rm -rf "$home"
  mv "$new" "$home"
  rm -rf "$work"
  trap - EXIT
}

#!/usr/bin/env bash
# check.sh: what only a real GPU can show. On a machine with an NVIDIA GPU level 0 has to give the CPU's
# answers and to survive its worker's loss and want of memory there, on WebGPU over Vulkan and on CUDA
# where its provider library is; latency and throughput are printed beside the CPU levels'. Under 8
# minutes, in some seconds of which WebGPU's check takes nearly all of the GPUs' memory. Elsewhere it says
# that it is skipped, and exits with 0.
#
#   tests/gpu/check.sh                  build/release, which is built first if need be
#   tests/gpu/check.sh --pack FOLDER    copies program and libraries there, for a machine where nothing
#   tests/gpu/check.sh --packed FOLDER  can be built or installed, and runs what was copied
#
# CUDA's provider library is that of `onnxruntime-gpu`, if Python finds it; GRADUS_ONNXRUNTIME_GPU names
# another folder. GRADUS_GPU_CHECK_SOFTWARE=1 walks through this with the software GPU driver, two of the
# models and without CUDA: a test of this script, not of a GPU.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$(dirname "$here")")
readonly here root
readonly limit_s=450 software=${GRADUS_GPU_CHECK_SOFTWARE:-}
# shellcheck source=scripts/say.sh
. "$root/scripts/say.sh"

has_nvidia_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

build() {
  [[ -x $root/build/release/gradus && -x $root/build/release/bench/load_client ]] || "$root/dev" build
}

# pack FOLDER: bin/, and lib/ with every library but the C library's own and the drivers'.
pack() {
  local folder=$1 file
  build
  mkdir -p "$folder/bin" "$folder/lib"
  cp "$root"/build/release/{gradus,libgradus_fault_ep.so,bench/load_client} "$folder/bin/"
  cp "$root"/build/deps/onnxruntime/lib/*.so* "$folder/lib/"
  ldd "$folder"/bin/* "$folder"/lib/*.so* | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread)\.so\.' | while IFS= read -r file; do
    cp -n "$file" "$folder/lib/"
  done
  file=$(ldconfig -p | awk '/libvulkan\.so\.1 / {print $NF; exit}')
  [[ -z $file ]] || cp "$file" "$folder/lib/"
  say "Packed in $folder; run tests/gpu/check.sh --packed there"
}

# NVIDIA's Vulkan driver, also where its manifest was not installed with it.
find_vulkan() {
  local manifest=$work/nvidia_icd.json
  if [[ -n $software ]]; then
    export VK_DRIVER_FILES=$root/build/deps/software-gpu/lvp_icd.json
  elif [[ -z ${VK_DRIVER_FILES:-} ]] && ! compgen -G '/usr/share/vulkan/icd.d/nvidia*' >/dev/null &&
    ! compgen -G '/etc/vulkan/icd.d/nvidia*' >/dev/null && ldconfig -p | grep -q libGLX_nvidia.so.0; then
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' \
      libGLX_nvidia.so.0 >"$manifest"
    export VK_DRIVER_FILES=$manifest
  fi
}

# The folder of an ONNX Runtime with CUDA; empty: there is none.
find_cuda() {
  local folder=${GRADUS_ONNXRUNTIME_GPU:-}
  if [[ -z $folder ]]; then
    folder=$(python3 -c 'import importlib.util as u; s = u.find_spec("onnxruntime")
print(s.submodule_search_locations[0] + "/capi" if s else "")' 2>/dev/null) || folder=
  fi
  [[ -n $folder && -e $folder/libonnxruntime_providers_cuda.so ]] && echo "$folder"
}

# cuda_library_path FOLDER: a folder in which the server finds it, and CUDA's own libraries from wheels.
cuda_library_path() {
  local folder=$1 library path
  mkdir -p "$work/cuda"
  ln -sf "$folder"/*.so* "$work/cuda/"
  for library in "$folder"/libonnxruntime.so.*; do ln -sf "$library" "$work/cuda/libonnxruntime.so.1"; done
  path=$work/cuda
  for library in "$folder"/../../nvidia/*/lib; do [[ ! -d $library ]] || path+=:$library; done
  echo "$path"
}

# check PROVIDER LIBRARY_PATH
check() {
  local flags=()
  [[ -z $software ]] || flags=(--software)
  LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout "$((limit_s > SECONDS ? limit_s - SECONDS : 1))" \
    python3 "$here/check.py" --binary "$bin/gradus" --load-client "$load_client" --provider "$1" \
    --demo "$root/demo" "${flags[@]}"
}

main() {
  local libraries='' bin=$root/build/release load_client=$root/build/release/bench/load_client
  local work cuda failed=() checked=0 status
  case ${1:-} in
    --pack)
      pack "${2:?--pack needs a folder}"
      return
      ;;
    --packed)
      bin=$(readlink -f "${2:?--packed needs a folder}")/bin
      libraries=$(dirname "$bin")/lib
      load_client=$bin/load_client
      ;;
    '') ;;
    *) die "unknown argument $1" "usage: tests/gpu/check.sh [--pack FOLDER | --packed FOLDER]" ;;
  esac
  if [[ -z $software ]] && ! has_nvidia_gpu; then
    say "skipped: no NVIDIA GPU"
    return
  fi
  if [[ -n ${GRADUS_BINARY:-} ]]; then  # of another build folder
    bin=$(dirname "$GRADUS_BINARY")
    load_client=$bin/bench/load_client
  elif [[ -z $libraries ]]; then
    build
  fi
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # what it is now
  trap "rm -rf '$work'" EXIT
  find_vulkan
  SECONDS=0  # of what all providers have together
  [[ -n $software ]] || nvidia-smi -L
  cuda=$(find_cuda) || cuda=
  [[ -z $software ]] || cuda=
  for provider in WebGpuExecutionProvider ${cuda:+CUDAExecutionProvider}; do
    say "== $provider"
    status=0
    if [[ $provider == CUDA* ]]; then
      check "$provider" "$(cuda_library_path "$cuda")${libraries:+:$libraries}" || status=$?
    else
      check "$provider" "$libraries" || status=$?
    fi
    case $status in
      0) checked=$((checked + 1)) ;;
      77) ;;  # it cannot run here, and has said why
      *) failed+=("$provider") ;;
    esac
  done
  [[ -n $cuda ]] || say "== CUDAExecutionProvider: left out, no libonnxruntime_providers_cuda.so is installed"
  ((${#failed[@]} == 0)) || die "failed on ${failed[*]}"
  ((checked > 0)) || die "no provider could use the GPU; the reasons are above"
  say "all well on $checked provider(s)"
}

main "$@"

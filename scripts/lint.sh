#!/usr/bin/env bash
# lint.sh format|shell: checks all files of one kind; changes nothing. `lint.sh format --fix` formats.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sources() { find apps bench fault_ep include src tests \( -name '*.h' -o -name '*.cc' \) -print 2>/dev/null || true; }

# Every file outside build/ whose first line names sh or bash, and the parts that are sourced.
shell_files() {
  find . \( -path ./build -o -path ./.git -o -path ./.cache \) -prune -o -type f -size -200k -print |
    while IFS= read -r file; do
      if [[ $file == *.sh ]] || head -n 1 "$file" | grep -qaE '^#!.*\b(ba)?sh\b'; then echo "$file"; fi
    done
}

case ${1:-} in
  format)
    mode=(--dry-run --Werror)
    [[ ${2:-} == --fix ]] && mode=(-i)
    if ! sources | sort | xargs -r -d '\n' clang-format "${mode[@]}"; then
      echo "./dev format puts this right" >&2
      exit 1
    fi
    ;;
  shell)
    shell_files | sort | xargs -r -d '\n' shellcheck --external-sources
    ;;
  *)
    echo "usage: scripts/lint.sh format [--fix] | shell" >&2
    exit 2
    ;;
esac

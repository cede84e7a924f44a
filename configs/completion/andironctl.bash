# SPDX-License-Identifier: MIT
# Completion for andironctl in bash. Names of models and numbers of jobs come from the agent, if one
# answers at once.

_andironctl_names() {
  local models
  models=$(timeout 1 andironctl --json models 2>/dev/null) || return
  grep -oE '"name":"[A-Za-z0-9._:-]+"' <<<"$models" | cut -d'"' -f4
}

_andironctl() {
  local verbs="setup status models warm drop explain path run events plan jobs resolve doctor reload"
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local line=$COMP_LINE verb="" word options="--socket --json --help"
  # A model's name may have colons, at which bash cuts words.
  if declare -F _get_comp_words_by_ref >/dev/null; then _get_comp_words_by_ref -n : cur prev; fi
  for word in ${line#* }; do
    if [[ " $verbs " == *" $word "* ]]; then verb=$word; break; fi
  done
  if [[ $verb == "$cur" ]]; then verb=""; fi

  COMPREPLY=()
  case $prev in
    --socket | --output) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    --tier) mapfile -t COMPREPLY < <(compgen -W "page-cache pinned-ram vram" -- "$cur"); return ;;
    --hold)
      mapfile -t COMPREPLY < <(compgen -W "auto cached mapped protected locked" -- "$cur")
      return ;;
    --timeout | --since) mapfile -t COMPREPLY < <(compgen -W "30s 2m 5m 1h" -- "$cur"); return ;;
    --cancel) return ;;
  esac
  case $verb in
    "") options="$verbs $options --version" ;;
    setup) options+=" --write --output --models" ;;
    warm) options+=" --boot --tier --hold --wait --no-wait --recharge --strict --timeout" ;;
    drop) options+=" --all --keep-pages" ;;
    events) options+=" --since --follow" ;;
    jobs) options+=" --cancel" ;;
    resolve) options+=" --also --tensors --local" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  if [[ $cur != -* ]]; then
    case $verb in
      models | warm | drop | explain | path | run)
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY \
          < <(compgen -W "$(_andironctl_names)" -- "$cur") ;;
    esac
    case $verb in
      warm | resolve)
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
  fi
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}
complete -o filenames -F _andironctl andironctl

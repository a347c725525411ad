# Completion for dlctl(1). Names of tensors are asked of the daemon; if none answers
# within a moment, nothing is offered.

_dlctl_names() {
  timeout 1 dlctl "${_dlctl_global[@]}" list --json 2>/dev/null |
    sed -n 's/^    "name": "\(.*\)",\{0,1\}$/\1/p'
}

_dlctl_options() {
  case $1 in
    list) echo --long --all-users --retired ;;
    show) echo --values --no-values ;;
    put) echo --type --raw --lifetime --ttl --mode --group --attr --backend ;;
    get) echo --type --raw --version ;;
    rm) echo --recursive --version ;;
    wait) echo --newer-than --timeout ;;
    watch) echo --since --count ;;
    stats) echo --prometheus ;;
  esac
  echo --socket --json --help
}

_dlctl() {
  local cur prev command='' position=0 i
  local commands='list show put get rm wait watch ping stats version help'
  local -a _dlctl_global=()

  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD - 1]}

  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --socket)
        _dlctl_global=(--socket "${COMP_WORDS[i + 1]}")
        ((i++))
        ;;
      -*) ;;
      *)
        if [[ -z $command ]]; then
          command=${COMP_WORDS[i]}
        else
          ((position++))
        fi
        ;;
    esac
  done

  case $prev in
    --socket) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    --type) mapfile -t COMPREPLY < <(compgen -W 'npy safetensors raw' -- "$cur"); return ;;
    --lifetime) mapfile -t COMPREPLY < <(compgen -W 'persistent ttl' -- "$cur"); return ;;
    --backend) mapfile -t COMPREPLY < <(compgen -W 'memfd posix-shm' -- "$cur"); return ;;
    --group) mapfile -t COMPREPLY < <(compgen -g -- "$cur"); return ;;
  esac

  if [[ -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands --socket --json --version --help" -- "$cur")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_dlctl_options "$command")" -- "$cur")
  elif [[ $command == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  elif [[ $command == put || $command == get ]] && ((position > 0)); then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  elif [[ $command =~ ^(list|show|put|get|rm|wait|watch)$ ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_dlctl_names)" -- "$cur")
  fi
}

complete -o filenames -F _dlctl dlctl

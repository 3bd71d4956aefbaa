# Completion for uroce, rdma_server, rdma_client and uroce-sim. Options and commands come from --help of the program itself.

# _uroce_words PROGRAM [COMMAND]: the long options, and without COMMAND the commands too.
_uroce_words() {
  "$@" --help 2>/dev/null | awk '
    /^Subcommands:/ { commands = 1 }
    /^  -/ { if (match($0, /--[a-z][a-z0-9-]*/)) print substr($0, RSTART, RLENGTH) }
    commands && /^  [a-z]/ { print $1 }'
}

_uroce() {
  local word=${COMP_WORDS[COMP_CWORD]} command= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [ "${COMP_WORDS[i]}" = -- ]; then # What follows is another command.
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); return; fi
      mapfile -t COMPREPLY < <(compgen -c -- "$word")
      return
    fi
    case ${COMP_WORDS[i]} in [a-z]*) [ -n "$command" ] || command=${COMP_WORDS[i]} ;; esac
  done
  [ "${COMP_WORDS[0]##*/}" = uroce ] || command=
  local words
  words=$(_uroce_words "${COMP_WORDS[0]}" ${command:+"$command"})
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _uroce uroce rdma_server rdma_client uroce-server uroce-client uroce-sim

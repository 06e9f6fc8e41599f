# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Completion of perigee for bash: what can stand here is the program's to say.

_perigee_completion() {
    local current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} kind="" line before=""
    program=${program/#\~/$HOME}
    # An `=` is a word of its own; after it nothing is written yet.
    [[ $current == "=" ]] && current=""
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <("$program" candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # What bash completes begins after the `=`; the last of values with commas between them is unfinished.
    if [[ ${COMP_WORDS[COMP_CWORD]} == "=" || (COMP_CWORD -gt 0 && ${COMP_WORDS[COMP_CWORD - 1]} == "=") ]]; then
        before=${current%"${current##*,}"}
        local index value
        for index in "${!COMPREPLY[@]}"; do
            value=${COMPREPLY[index]#*=}
            # A key path that ends in an `=` is whole.
            [[ -n $value ]] && COMPREPLY[index]=$value
        done
    fi
    case $kind in
        open) compopt -o nospace ;;
        files)
            compopt -o filenames
            while IFS= read -r line; do COMPREPLY+=("$before$line"); done < <(compgen -f -- "${current#"$before"}")
            ;;
        folders)
            compopt -o filenames
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$current")
            ;;
        program\ *)
            local first=${kind#program }
            if [[ $COMP_CWORD -eq $first ]]; then
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -c -- "$current")
            elif declare -F _command_offset >/dev/null; then
                _command_offset "$first"
            else
                compopt -o filenames
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
            fi
            ;;
    esac
}

complete -F _perigee_completion perigee

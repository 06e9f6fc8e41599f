# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Completion of perigee for fish: what can stand here is the program's to say.

# Prints the paths that the end of a word can become, with what stands before them: a key or an option with its `=`, and earlier values.
function __perigee_paths --argument-names offer word
    set -l before (string match -r -- '^[^=]*=(?:.*,)?' "$word")
    set -l unfinished (string sub -s (math 1 + (string length -- "$before")) -- "$word")
    for path in ($offer "$unfinished")
        printf '%s\n' "$before$path"
    end
end

function __perigee_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer (command $words[1] candidates -- $words[2..-1] "$current" 2>/dev/null)
    for line in $answer[2..-1]
        echo $line
    end
    switch "$answer[1]"
        case files
            __perigee_paths __fish_complete_path "$current"
        case folders
            __perigee_paths __fish_complete_directories "$current"
        case 'program *'
            set -l first (string replace 'program ' '' -- $answer[1])
            __fish_complete_subcommand --fcs-skip=(math $first)
    end
end

complete -c perigee -f -a '(__perigee_candidates)'

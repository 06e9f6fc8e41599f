# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Completion of perigee for fish: what can stand here is the program's to say.

function __perigee_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer (command $words[1] candidates -- $words[2..-1] "$current" 2>/dev/null)
    for line in $answer[2..-1]
        echo $line
    end
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
        case 'program *'
            set -l first (string replace 'program ' '' -- $answer[1])
            __fish_complete_subcommand --fcs-skip=(math $first)
    end
end

complete -c perigee -f -a '(__perigee_candidates)'

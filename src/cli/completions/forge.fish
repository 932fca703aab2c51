# Fish completion of forge. Runs forge itself, which reads the inventory of the command line and contacts no host.
function __forge_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l candidates (command forge completions fish --complete (count $words) -- $words "$current" 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else
        __fish_complete_path "$current"
    end
end
complete -c forge -f -a '(__forge_complete)'

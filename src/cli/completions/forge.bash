# Bash completion of forge. Runs forge itself, which reads the inventory of the command line and contacts no host.
_forge() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <(command forge completions bash --complete "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
    # A flag that ends in `=` continues with its value, so no space follows.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _forge forge

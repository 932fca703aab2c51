#compdef forge
# Zsh completion of forge. Runs forge itself, which reads the inventory of the command line and contacts no host.
_forge() {
    local -a candidates
    candidates=("${(@f)$(command forge completions zsh --complete $((CURRENT - 1)) -- "${(@Q)words}" 2>/dev/null)}")
    candidates=("${(@)candidates:#}")
    if (( $#candidates )); then
        compadd -- "${candidates[@]}"
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == _forge ]]; then
    _forge "$@"
else
    compdef _forge forge
fi

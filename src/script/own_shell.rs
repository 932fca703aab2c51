//! Recognises shells that forge itself started.

/// Reports whether the words of a command start a shell of forge's own, of this or another version. Only the beginning
/// of a long command may be known.
pub fn is_own_shell(words: &[String]) -> bool {
    let [program, option, script, ..] = words else { return false };
    let begins = script.starts_with("m=$1; ") && script.contains(r"printf '\001%s");
    program.rsplit('/').next() == Some("sh") && option == "-c" && begins
}

//! Values of kernel settings, told apart as the kernel does.

/// Returns the value with single blanks: the kernel separates numbers by tabs and takes either.
pub(super) fn canonical(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether two canonical values mean the same: word by word, numbers by their value.
pub(super) fn same(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split(' ').collect(), other.split(' ').collect());
    one.len() == other.len()
        && one.iter().zip(&other).all(|(a, b)| a == b || number(a).is_some_and(|n| Some(n) == number(b)))
}

/// Reads a number as the kernel does: decimal, or hexadecimal with `0x`. One with a zero in front would be octal to
/// it, and is left alone.
fn number(text: &str) -> Option<i128> {
    if let Some(hex) = text.strip_prefix("0x") {
        return i128::from_str_radix(hex, 16).ok();
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" || !digits.starts_with('0');
    text.parse().ok().filter(|_| plain && !text.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_bases_are_no_difference() {
        assert_eq!(canonical(" 4096\t131072  6291456\n"), "4096 131072 6291456");
        assert!(same("4096 131072", "4096 131072"));
        assert!(same("16", "0x10") && same("-1", "-1"));
        assert!(!same("1 2", "1") && !same("1", "10") && !same("8", "010"));
        assert!(same("cubic", "cubic") && !same("cubic", "bbr"));
    }
}

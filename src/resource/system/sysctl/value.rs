//! Values of kernel settings, compared as the kernel parses them.

/// Returns the value with single blanks: the kernel prints tabs between numbers and accepts both.
pub(super) fn canonical_value(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reports whether two canonical values are equal: word by word, numbers by value.
pub(super) fn is_same_value(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split(' ').collect(), other.split(' ').collect());
    one.len() == other.len()
        && one.iter().zip(&other).all(|(a, b)| a == b || parse_number(a).is_some_and(|n| Some(n) == parse_number(b)))
}

/// Parses a number as the kernel does: decimal, or hexadecimal with `0x`. A number with a leading zero, which the
/// kernel treats as octal, is not parsed.
fn parse_number(text: &str) -> Option<i128> {
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
    fn values_are_compared_ignoring_whitespace_and_base() {
        assert_eq!(canonical_value(" 4096\t131072  6291456\n"), "4096 131072 6291456");
        assert!(is_same_value("4096 131072", "4096 131072"));
        assert!(is_same_value("16", "0x10") && is_same_value("-1", "-1"));
        assert!(!is_same_value("1 2", "1") && !is_same_value("1", "10") && !is_same_value("8", "010"));
        assert!(is_same_value("cubic", "cubic") && !is_same_value("cubic", "bbr"));
    }
}

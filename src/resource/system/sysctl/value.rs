//! Values of kernel settings, compared as the kernel parses them.

use std::collections::BTreeSet;

/// Returns the value with single blanks: the kernel prints tabs between numbers and accepts both.
pub(super) fn canonical_value(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Keys whose value is a list of numbers and ranges, by their path. The kernel prints `8080,8081` as `8080-8081`
/// (`proc_do_large_bitmap` in kernel/sysctl.c).
const RANGE_LISTS: &[&str] = &["net/ipv4/ip_local_reserved_ports", "kernel/watchdog_cpumask"];

/// Keys whose value is a set of words, by their path. The kernel prints them in the order in which it lists its modules
/// (`tcp_get_allowed_congestion_control` in net/ipv4/tcp_cong.c).
const WORD_SETS: &[&str] = &["net/ipv4/tcp_allowed_congestion_control"];

/// Reports whether two canonical values of the key at `place` are equal.
pub(super) fn is_same_value(place: &str, one: &str, other: &str) -> bool {
    if RANGE_LISTS.contains(&place)
        && let (Some(one), Some(other)) = (parse_ranges(one), parse_ranges(other))
    {
        return one == other;
    }
    if WORD_SETS.contains(&place) {
        let words = |value: &str| value.split(' ').map(str::to_owned).collect::<BTreeSet<String>>();
        return words(one) == words(other);
    }
    is_same_word_list(one, other)
}

/// Parses `1,3-5` into ranges that neither overlap nor touch, in ascending order.
fn parse_ranges(value: &str) -> Option<Vec<(u32, u32)>> {
    let parse = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some((first, last))
    };
    let mut ranges: Vec<(u32, u32)> = value.split(',').map(parse).collect::<Option<_>>()?;
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1.saturating_add(1);
        kept.1 = if joins { kept.1.max(next.1) } else { kept.1 };
        joins
    });
    Some(ranges)
}

/// Compares word by word, numbers by value.
fn is_same_word_list(one: &str, other: &str) -> bool {
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
        let same = |one, other| is_same_value("vm/any", one, other);
        assert!(same("4096 131072", "4096 131072"));
        assert!(same("16", "0x10") && same("-1", "-1"));
        assert!(!same("1 2", "1") && !same("1", "10") && !same("8", "010"));
        assert!(same("cubic", "cubic") && !same("cubic", "bbr"));
        assert!(!same("8080,8081", "8080-8081"), "another key may mean something else by it");
    }

    #[test]
    fn lists_of_ranges_and_words_are_compared_as_sets() {
        let ports = |one, other| is_same_value("net/ipv4/ip_local_reserved_ports", one, other);
        assert!(ports("8080,8081", "8080-8081") && ports("9000,8080-8090,8085", "8080-8090,9000"));
        assert!(!ports("8080,8082", "8080-8082") && !ports("8080", "8080-8081") && !ports("8080-8079", "8080"));
        assert!(ports("8080-8085,8084-8090,8091", "8080-8091"));
        let control = |one, other| is_same_value("net/ipv4/tcp_allowed_congestion_control", one, other);
        assert!(control("cubic reno", "reno cubic") && !control("cubic", "reno cubic"));
    }
}

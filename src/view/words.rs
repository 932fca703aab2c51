//! Counts, lists and times in words.

use std::time::Duration;

/// Returns `1 host`, `3 hosts`.
pub fn count(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {}", plural(one)),
    }
}

fn plural(one: &str) -> String {
    match one {
        one if one.ends_with('y') => format!("{}ies", &one[..one.len() - 1]),
        one if one.ends_with('s') => format!("{one}es"),
        one => format!("{one}s"),
    }
}

/// Returns a duration for people: `0.3 s`, `12 s`, `3 min 05 s`, `2 h 07 min`.
pub fn took(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds.round() as u64 {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        whole @ ..60 => format!("{whole} s"),
        whole @ ..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        whole => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Joins the parts that say something: `(3, "blocked")` of a list, zero counts left out.
pub fn counts(parts: &[(usize, &str)]) -> String {
    let said: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    said.join(", ")
}

/// Names at most this many of a list.
const NAMED: usize = 5;

/// Returns `a, b and c`; of a long list the first ones and how many more there are.
pub fn some<T: AsRef<str>>(names: &[T]) -> String {
    let (shown, more) = match names.len() {
        len if len > NAMED + 1 => (NAMED, len - NAMED),
        len => (len, 0),
    };
    let mut parts: Vec<String> = names[..shown].iter().map(|name| name.as_ref().to_owned()).collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many() {
        assert_eq!(count(1, "host"), "1 host");
        assert_eq!(count(0, "host"), "0 hosts");
        assert_eq!(count(2, "verification"), "2 verifications");
        assert_eq!(count(2, "inventory"), "2 inventories");
    }

    #[test]
    fn times_fit_their_size() {
        let of = |ms| took(Duration::from_millis(ms));
        assert_eq!(of(0), "0.0 s");
        assert_eq!(of(2_140), "2.1 s");
        assert_eq!(of(9_960), "10 s");
        assert_eq!(of(59_700), "1 min 00 s");
        assert_eq!(of(185_000), "3 min 05 s");
        assert_eq!(of(7_620_000), "2 h 07 min");
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some::<&str>(&[]), "");
        assert_eq!(some(&["a"]), "a");
        assert_eq!(some(&["a", "b"]), "a and b");
        assert_eq!(some(&["a", "b", "c", "d", "e", "f"]), "a, b, c, d, e and f");
        assert_eq!(some(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }

    #[test]
    fn zero_counts_are_left_out() {
        assert_eq!(counts(&[(2, "changed"), (0, "failed"), (1, "ok")]), "2 changed, 1 ok");
        assert_eq!(counts(&[]), "");
    }
}

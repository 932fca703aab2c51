//! "Did you mean" suggestions.

/// Maximum length in bytes of a name that gets suggestions.
const MAX_TYPED: usize = 100;

/// Maximum number of names that a suggestion lists because they begin with the typed one.
const MAX_LONGER: usize = 3;

/// Returns the nearest of `known` to `typed`, if it is near enough to be a typing error.
pub fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // In a short name, a different letter is a different name.
    let limit = match typed.chars().count() {
        0..=2 => 0,
        letters => (letters / 3).max(1),
    };
    // The cost of a comparison is the product of both lengths, and there can be many names: skip those too different in
    // length.
    let near = |candidate: &&str| candidate.len().abs_diff(typed.len()) <= 4 * limit;
    if typed.len() > MAX_TYPED {
        return None;
    }
    known
        .into_iter()
        .filter(near)
        .map(|candidate| (edit_distance(typed, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the known name of which `typed` is most likely a slip: two letters are swapped, or one of a long name is missing
/// or doubled. Other names that resemble each other are often both meant: `gpu` and `cpu`, `h100` and `h200`.
pub fn find_slip<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_slip = |candidate: &&str| {
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let sorted = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters
        };
        let is_swapped = sorted(typed) == sorted(candidate);
        let lengths = (typed.chars().count(), candidate.chars().count());
        let is_one_off = lengths.0.abs_diff(lengths.1) == 1 && lengths.0.min(lengths.1) >= 5;
        edit_distance(typed, candidate) == 1 && digits(typed) == digits(candidate) && (is_swapped || is_one_off)
    };
    known.into_iter().find(is_slip)
}

fn edit_distance(typed: &str, candidate: &str) -> usize {
    strsim::osa_distance(&typed.to_lowercase(), &candidate.to_lowercase())
}

/// Returns the hint for an unknown name.
pub(super) fn format_name_hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const FEW: usize = 24;
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(near) = did_you_mean(typed, known.iter().copied()) {
        // A name that was cut short is meant more likely than another one of the same length.
        let longer: Vec<String> =
            known.iter().filter(|name| name.starts_with(typed)).map(|name| format!("`{name}`")).collect();
        return Some(match near.starts_with(typed) || longer.is_empty() || longer.len() > MAX_LONGER {
            true => format!("did you mean `{near}`?"),
            false => format!("did you mean {}?", longer.join(" or ")),
        });
    }
    let listed = known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ");
    (!known.is_empty() && known.len() <= FEW).then(|| format!("expected one of: {listed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_not_slips() {
        let slip = |typed, known: &[&'static str]| find_slip(typed, known.iter().copied());
        assert_eq!(slip("wbe", &["db", "web"]), Some("web"));
        assert_eq!(slip("debain", &["debian"]), Some("debian"));
        assert_eq!(slip("storag", &["storage"]), Some("storage"));
        for (typed, known) in [
            ("cpu", "gpu"),
            ("h100", "h200"),
            ("rack12", "rack21"),
            ("web", "webs"),
            ("tencentos", "centos"),
            ("a", "a"),
        ] {
            assert_eq!(slip(typed, &[known]), None, "{typed} {known}");
        }
    }

    #[test]
    fn name_that_was_cut_short_is_completed() {
        let known = ["a100x8", "h100-pcie", "h100x8-ndr", "h100x8-roce"];
        let hint = |typed| format_name_hint(typed, known).unwrap();
        assert_eq!(hint("h100x8"), "did you mean `h100x8-ndr` or `h100x8-roce`?");
        assert_eq!(hint("a100x9"), "did you mean `a100x8`?");
    }
}

//! "Did you mean".

/// Bytes of a name for which another one is looked for.
const MAX_TYPED: usize = 100;

/// Returns the one of `known` that is nearest to `typed`, if it is near enough to be a slip of the hand.
pub fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One letter for another in a short name is another name, not a slip.
    let limit = match typed.chars().count() {
        0..=2 => 0,
        letters => (letters / 3).max(1),
    };
    // Comparing takes the product of both lengths, and names are many where mistakes are: only what can be near is compared.
    let near = |candidate: &&str| candidate.len().abs_diff(typed.len()) <= 4 * limit;
    if typed.len() > MAX_TYPED {
        return None;
    }
    known
        .into_iter()
        .filter(near)
        .map(|candidate| (distance(typed, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

fn distance(typed: &str, candidate: &str) -> usize {
    strsim::osa_distance(&typed.to_lowercase(), &candidate.to_lowercase())
}

/// Returns the text of a hint for a name that is not known.
pub(super) fn hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const FEW: usize = 12;
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(near) = did_you_mean(typed, known.iter().copied()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let listed = known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ");
    (!known.is_empty() && known.len() <= FEW).then(|| format!("known here: {listed}"))
}

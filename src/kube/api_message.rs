//! Messages of the API, without the objects that they quote.

use std::borrow::Cow;

/// Comes before a value that the API rejects: `invalid value` of `field.Error` in apimachinery's `util/validation/field`.
const REJECTED_VALUE: &str = "Invalid value: ";

/// Replaces each object that a message quotes as a rejected value, in the syntax of Go or as JSON, by `{…}`: a whole pod
/// template, for example, with the values of its environment variables. Texts and numbers stay.
pub(super) fn hide_quoted_objects(message: &str) -> Cow<'_, str> {
    if !message.contains(REJECTED_VALUE) {
        return Cow::Borrowed(message);
    }
    let mut shown = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(REJECTED_VALUE) {
        let (before, value) = rest.split_at(at + REJECTED_VALUE.len());
        shown.push_str(before);
        rest = match find_object_start(value) {
            Some(open) => {
                shown.push_str("{…}");
                &value[find_object_end(value, open)..]
            }
            None => value,
        };
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Returns the position of the opening brace if the value is an object: `core.PodSpec{`, `map[string]string{`, `{`.
fn find_object_start(value: &str) -> Option<usize> {
    let open = value.find('{')?;
    let is_type = |c: char| c.is_ascii_alphanumeric() || "_.[]*&/".contains(c);
    value[..open].chars().all(is_type).then_some(open)
}

/// Returns the position behind the closing brace; the end of the text if it was cut.
fn find_object_end(value: &str, open: usize) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, c) in value[open..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// origin: field, kube-apiserver 1.20, shortened; the second error is reconstructed
    #[test]
    fn rejected_objects_are_not_quoted() {
        let message = r#"Job.batch "migrate" is invalid: [spec.template: Invalid value: core.PodTemplateSpec{Env:[]core.EnvVar{core.EnvVar{Name:"DB_PASSWORD", Value:"top}\"secret"}}}: field is immutable, spec.selector: Invalid value: map[string]string{"a":"b"}: no]"#;
        let shown = r#"Job.batch "migrate" is invalid: [spec.template: Invalid value: {…}: field is immutable, spec.selector: Invalid value: {…}: no]"#;
        assert_eq!(hide_quoted_objects(message), shown);
        assert_eq!(hide_quoted_objects(r#"x: Invalid value: {"a":"secret"#), "x: Invalid value: {…}", "cut");
    }

    #[test]
    fn rejected_texts_and_numbers_are_quoted() {
        for message in [
            r#"metadata.name: Invalid value: "a{b": no"#,
            "spec.replicas: Invalid value: -1: must be {positive}",
            "other",
        ] {
            assert_eq!(hide_quoted_objects(message), message);
        }
    }
}

//! Messages of the API, without the objects that they quote.

use std::borrow::Cow;

/// Come before a value that the API rejects: the texts of `field.Error` in apimachinery's `util/validation/field`.
const REJECTED_VALUES: [&str; 2] = ["Invalid value: ", "Duplicate value: "];

/// Types of Go with braces in their names, as `%#v` writes them.
const BRACED_TYPES: [&str; 2] = ["interface {}", "struct {}"];

/// Replaces each object that a message quotes as a rejected value, in the syntax of Go or as JSON, by `{…}`: a whole pod
/// template, for example, with its environment variables. Texts and numbers stay.
pub(super) fn hide_quoted_objects(message: &str) -> Cow<'_, str> {
    let find_value = |text: &str| {
        let ends = REJECTED_VALUES.iter().filter_map(|mark| Some(text.find(mark)? + mark.len()));
        ends.min()
    };
    if find_value(message).is_none() {
        return Cow::Borrowed(message);
    }
    let mut shown = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = find_value(rest) {
        let (before, value) = rest.split_at(at);
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

/// Returns the position of the opening brace if the value is an object: `core.PodSpec{`, `map[string]interface {}{`, `{`.
fn find_object_start(value: &str) -> Option<usize> {
    let is_type = |c: char| c.is_ascii_alphanumeric() || "_.[]*&/".contains(c);
    let mut at = 0;
    loop {
        let rest = &value[at..];
        if let Some(braced) = BRACED_TYPES.iter().find(|braced| rest.starts_with(**braced)) {
            at += braced.len();
            continue;
        }
        match rest.chars().next()? {
            '{' => return Some(at),
            c if is_type(c) => at += c.len_utf8(),
            _ => return None,
        }
    }
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

    /// The form in which Go prints an object without a type, such as a custom resource.
    #[test]
    fn rejected_objects_without_a_type_are_not_quoted() {
        let untyped = r#"map[string]interface {}{"env":[]interface {}{map[string]interface {}{"value":"secret"}}}"#;
        for (mark, value) in [("Invalid", untyped), ("Duplicate", untyped), ("Invalid", r#"[]interface {}{"secret"}"#)]
        {
            let message = format!("X \"x\" is invalid: spec: {mark} value: {value}: no");
            let shown = format!("X \"x\" is invalid: spec: {mark} value: {{…}}: no");
            assert_eq!(hide_quoted_objects(&message), shown);
        }
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

//! The text of the two units of a timer.

use super::{FieldValues, bad_value, required_text};
use crate::diag::Diag;

/// Returns the service unit, which runs the command.
pub(super) fn render_service_unit(fields: &FieldValues) -> Result<String, Diag> {
    let command = required_text(fields, "command")?.trim();
    if command.is_empty() {
        return Err(bad_value("`command` is empty").with_field("command"));
    }
    let user = fields.get_text("user").unwrap_or("root");
    crate::resource::shared::support::check_account_name("user", user)?;
    Ok(format!(
        "[Unit]\nDescription={}\n\n[Service]\nType=oneshot\nUser={user}\nExecStart=/bin/sh -c {}\n",
        unit_description(fields)?,
        quote_argument(command)
    ))
}

/// Returns the timer unit.
pub(super) fn render_timer_unit(fields: &FieldValues) -> Result<String, Diag> {
    let mut lines = vec!["[Unit]".to_owned(), format!("Description={}", unit_description(fields)?), String::new()];
    lines.push("[Timer]".to_owned());
    if let Some(calendar) = fields.get_text("calendar") {
        if calendar.trim().is_empty() {
            return Err(bad_value("`calendar` is empty").with_field("calendar"));
        }
        lines.push(format!("OnCalendar={}", escape_percent(calendar.trim())));
    }
    if let Some(every) = fields.get_int("every") {
        if every == 0 {
            return Err(bad_value("`every` is zero").with_field("every"));
        }
        if fields.get_bool("persistent") == Some(true) {
            return Err(bad_value("`persistent` requires `calendar`: `every` counts from the last run")
                .with_field("persistent"));
        }
        // The first run counts from the start of the timer, because there is no last run yet.
        lines.push(format!("OnActiveSec={every}s\nOnUnitActiveSec={every}s"));
        lines.extend(accuracy_line(every));
    }
    if let Some(delay) = fields.get_int("delay").filter(|delay| *delay > 0) {
        lines.push(format!("RandomizedDelaySec={delay}s"));
    }
    if fields.get_bool("persistent") == Some(true) {
        lines.push("Persistent=true".to_owned());
    }
    Ok(lines.join("\n") + "\n\n[Install]\nWantedBy=timers.target\n")
}

/// Returns the accuracy of a short interval: systemd's default of one minute is longer than some intervals.
fn accuracy_line(every: i64) -> Option<String> {
    (every < 600).then(|| format!("AccuracySec={}s", (every / 10).max(1)))
}

fn unit_description(fields: &FieldValues) -> Result<String, Diag> {
    let text = match fields.get_text("description") {
        Some(text) => text,
        None => required_text(fields, "name")?,
    };
    match text.ends_with('\\') {
        true => Err(bad_value("`description` ends with a backslash, which joins it with the next line")
            .with_field("description")),
        false => Ok(escape_percent(text)),
    }
}

/// Escapes `%`, which begins a systemd specifier.
fn escape_percent(text: &str) -> String {
    text.replace('%', "%%")
}

/// Quotes one argument for a systemd command line, which has its own escapes, specifiers and variables.
fn quote_argument(command: &str) -> String {
    let mut out = String::from("\"");
    for c in command.chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            '%' | '$' => out.extend([c, c]),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Formats a time in UTC; `None` for zero.
pub(super) fn format_time(seconds: f64) -> Option<String> {
    // Seconds since the epoch fit for every year with four digits.
    let at = jiff::Timestamp::from_second(seconds as i64).ok().filter(|_| seconds > 0.0)?;
    Some(at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn command_is_escaped_for_systemd() {
        assert_eq!(quote_argument(r#"date +%F > "$HOME/a b" \n"#), r#""date +%%F > \"$$HOME/a b\" \\n""#);
    }

    #[test]
    fn service_and_timer_units_are_rendered() {
        let fields = [
            ("name", json!("scrub")),
            ("command", json!("scrub /data")),
            ("calendar", json!("daily")),
            ("user", json!("ops")),
            ("persistent", json!(true)),
            ("delay", json!(600)),
        ];
        let fields = FieldValues(fields.into_iter().collect());
        assert_eq!(
            render_service_unit(&fields).unwrap(),
            "[Unit]\nDescription=scrub\n\n[Service]\nType=oneshot\nUser=ops\nExecStart=/bin/sh -c \"scrub /data\"\n"
        );
        assert_eq!(
            render_timer_unit(&fields).unwrap(),
            "[Unit]\nDescription=scrub\n\n[Timer]\nOnCalendar=daily\nRandomizedDelaySec=600s\nPersistent=true\n\n\
             [Install]\nWantedBy=timers.target\n"
        );
    }

    #[test]
    fn short_intervals_reduce_the_timer_accuracy() {
        let text = |every: i64| {
            let fields = [("name", json!("a")), ("every", json!(every))];
            render_timer_unit(&FieldValues(fields.into_iter().collect())).unwrap()
        };
        assert!(text(2).contains("OnActiveSec=2s\nOnUnitActiveSec=2s\nAccuracySec=1s\n"));
        assert!(text(300).contains("AccuracySec=30s\n"));
        assert!(!text(600).contains("AccuracySec"));
    }

    #[test]
    fn timestamps_are_formatted_as_utc() {
        assert_eq!(format_time(1_795_305_600.5).as_deref(), Some("2026-11-22 00:00:00 UTC"));
        assert_eq!(format_time(0.0), None);
    }
}

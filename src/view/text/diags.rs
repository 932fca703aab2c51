//! One diagnostic as people read it.

use crate::diag::{Diag, Severity, Sources};
use crate::view::escape;
use crate::view::style::{BAD, CHANGE, DIM, HEAD, paint};

/// Returns the diagnostic with its places, notes and hint, and a line break at its end. What it quotes of
/// files is shown harmlessly.
pub fn render_diag(diag: &Diag, sources: &Sources) -> String {
    let (style, word) = match diag.severity {
        Severity::Error => (BAD, "error"),
        Severity::Warning => (CHANGE, "warning"),
    };
    let word = paint(style, format!("{word}[{}]", diag.code.id()));
    let mut out = format!("{word}: {}\n", paint(HEAD, escape::line(&diag.message)));
    if let Some(span) = diag.span {
        out.push_str(&place(sources, span, diag.label.as_deref().unwrap_or("")));
    }
    for (span, label) in &diag.others {
        out.push_str(&place(sources, *span, label));
    }
    for note in &diag.notes {
        out.push_str(&format!("  note: {}\n", escape::line(note)));
    }
    if let Some(hint) = &diag.hint {
        out.push_str(&format!("  hint: {}\n", escape::line(hint)));
    }
    out
}

fn place(sources: &Sources, span: crate::diag::Span, label: &str) -> String {
    let place = sources.place(span);
    let label = match label {
        "" => String::new(),
        label => format!(" {}", escape::line(label)),
    };
    format!("  {} {}{label}\n", paint(DIM, "-->"), escape::line(&place))
}

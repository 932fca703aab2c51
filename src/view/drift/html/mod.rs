//! Drift as one self-contained HTML page: no network access, no external scripts.
//!
//! All content is in the page as text. The script only hides, shows and links it, so the page is complete without the
//! script. JSON data in the page lists the hosts of each entry, which the text shows folded.
//!
//! Architecture Invariant: text of hosts enters only through `escape`, and the page's Content-Security-Policy names the
//! digests of its one style and its one script: nothing else runs, whatever the page contains.

pub(in crate::view) mod escape;
mod findings;
mod heatmap;
mod outliers;
mod page_data;
mod summary;
mod trend;

use super::DriftReportInput;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use escape::html_line;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Approximate maximum size of the page in bytes. Details that do not fit are counted in the page.
///
/// A browser parses some megabytes in a tenth of a second, so a page of this size loads fast even on a slow machine.
pub const MAX_PAGE_BYTES: usize = 2_000_000;

/// Writes the page.
pub fn write_html(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut island = page_data::PageData::new(told.drift);
    let heat = heatmap::render_heatmap(told.drift, &mut island);
    // Space for the style, the script, the head and the JSON data, which takes some bytes per host and entry.
    let room = MAX_PAGE_BYTES.saturating_sub(heat.len() + STYLE.len() + SCRIPT.len() + 200_000);
    let odd = outliers::render_outliers(told);
    let findings = findings::render_findings(told, &mut island, room.saturating_sub(odd.len()));
    let parts = [
        summary::render_header(told),
        summary::render_tiles(told),
        trend::render_trend(told.runs),
        CONTROLS_HTML.to_owned(),
        heat,
        findings,
        odd,
    ];
    write!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n{}</head>\n<body>\n", render_head(told))?;
    parts.iter().try_for_each(|part| out.write_all(part.as_bytes()))?;
    writeln!(out, "<script type=\"application/json\" id=\"data\">{}</script>", island.to_json()?)?;
    write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

/// The controls. Hidden without the script, because they need it.
const CONTROLS_HTML: &str = "<section id=\"controls\" hidden>
<label>search <input id=\"q\" type=\"search\" placeholder=\"host, recipe, text\" autocomplete=\"off\" spellcheck=\"false\"></label>
<label>severity <select id=\"severity\"><option value=\"\">all</option><option>critical</option><option>high</option><option>medium</option><option>low</option><option>unknown</option><option>unreachable</option></select></label>
<label>cause <select id=\"cause\"><option value=\"\">all</option></select></label>
<span id=\"chips\"></span>
<output id=\"shown\"></output>
<button id=\"clear\" type=\"button\">clear</button>
</section>
";

fn render_head(told: &DriftReportInput<'_>) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest_base64(STYLE),
        digest_base64(SCRIPT)
    );
    format!(
        "<meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta name=\"referrer\" content=\"no-referrer\">
<link rel=\"icon\" href=\"data:,\">
<title>forge drift: {}, {}</title>
<style>{STYLE}</style>
",
        html_line(&told.drift.cluster),
        html_line(&told.drift.time),
    )
}

fn digest_base64(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

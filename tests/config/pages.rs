//! The page of every error code has an example with the error, and shows forge's exact message for it.
//! `FORGE_BLESS=1` writes the messages of the run.

use super::{load, rendered};
use camino::Utf8Path;
use forge::diag::{DiagCode, DiagSeverity};

/// Returns the contents of the fenced blocks of a language.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Writes the files of a page, each named by its first line, and returns the messages of a load.
fn said(code: DiagCode) -> String {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    for block in blocks(code.page(), "yaml") {
        let name =
            block.lines().next().and_then(|line| line.strip_prefix("# ")).expect("the first line names the file");
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, block).unwrap();
    }
    let (_, diags, sources) = load(&root.join("inventory.yaml"));
    let errors = diags.0.iter().filter(|diag| diag.severity == DiagSeverity::Error);
    assert!(errors.clone().count() > 0, "the example of {} has no error", code.id());
    let other = errors.clone().any(|diag| diag.code != code);
    assert!(!other, "{} shows another error:\n{}", code.id(), rendered(&diags, &sources, root));
    rendered(&diags, &sources, root)
}

fn with_message(page: &str, message: &str) -> String {
    let (before, rest) = page.split_once("```text\n").expect("the page has a block with the message");
    let (_, after) = rest.split_once("```").unwrap();
    format!("{before}```text\n{message}```{after}")
}

#[test]
fn error_pages_show_the_message_of_their_example() {
    for code in DiagCode::ALL {
        let message = said(*code);
        if std::env::var_os("FORGE_BLESS").is_some() {
            let file = format!("{}/src/diag/pages/{}.md", env!("CARGO_MANIFEST_DIR"), code.id());
            std::fs::write(file, with_message(code.page(), &message)).unwrap();
            continue;
        }
        assert_eq!(blocks(code.page(), "text"), [message], "{}", code.id());
    }
}

#[test]
fn error_pages_explain_the_meaning_and_the_fix() {
    for code in DiagCode::ALL {
        let page = code.page();
        let meaning = page.split("```").next().unwrap();
        let mending = page.rsplit("```").next().unwrap();
        assert!(meaning.trim().len() > 60 && mending.trim().len() > 10, "{} explains too little", code.id());
        assert!(page.ends_with(".\n") && !page.contains("  \n"), "{}", code.id());
    }
}

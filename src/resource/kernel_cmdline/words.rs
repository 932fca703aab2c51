//! The words of a command line, told apart as the kernel does, and what is declared of them.

use crate::diag::Diag;
use crate::resource::support::bad_value;

/// One word: a flag, or a name with a value. Two are equal if the kernel takes them for the same.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// With underscores: the kernel takes `-` for `_` in names.
    pub name: String,
    pub value: Option<String>,
    /// As it was written, without quotes.
    pub text: String,
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.value) == (&other.name, &other.value)
    }
}

impl Word {
    pub fn read(text: &str) -> Self {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        Self { name: name.replace('-', "_"), value, text: text.to_owned() }
    }
}

/// Returns words as they stand on a line.
pub(super) fn line(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Splits a command line: blanks between double quotes separate nothing, and what follows `--` is not the kernel's.
/// Words that the boot loader fills in (`$tuned_params`) are left out.
pub(super) fn words(line: &str) -> Vec<Word> {
    let (mut out, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            _ if c.is_ascii_whitespace() && !quoted => match std::mem::take(&mut word) {
                done if done == "--" => return out,
                done if done.is_empty() || done.starts_with('$') => {}
                done => out.push(Word::read(&done)),
            },
            // GRUB's scripts write a quote as `\"`.
            '\\' => {}
            _ => word.push(c),
        }
    }
    out
}

/// What is declared of a command line.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Each as it was written.
    pub args: Vec<String>,
    /// As they were written: a name, or a name with a value.
    pub absent: Vec<String>,
}

/// One way in which a command line is not as declared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lack {
    /// The values of that name that were found.
    pub have: Vec<Word>,
    /// Those that are declared; none for an absent one.
    pub want: Vec<Word>,
}

impl Lack {
    pub fn says(&self) -> String {
        match (self.have.is_empty(), self.want.is_empty()) {
            (true, _) => format!("`{}` is missing", line(&self.want)),
            (_, true) => format!("`{}` is there", line(&self.have)),
            _ => format!("`{}` in place of `{}`", line(&self.have), line(&self.want)),
        }
    }
}

impl Wanted {
    /// Checks what was written.
    ///
    /// # Errors
    /// A word that the boot loader's files do not carry as it is, or one that contradicts another.
    pub fn new(args: Vec<String>, absent: Vec<String>) -> Result<Self, Diag> {
        for word in args.iter().chain(&absent) {
            check(word)?;
        }
        let wanted = Self { args, absent };
        if let Some(both) = wanted.present().iter().find(|word| wanted.is_absent(word)) {
            return Err(bad_value(format!("`{}` is declared in `args` and in `absent`", both.text)));
        }
        match wanted.args.is_empty() && wanted.absent.is_empty() {
            true => Err(bad_value("neither `args` nor `absent` declares anything")),
            false => Ok(wanted),
        }
    }

    pub fn present(&self) -> Vec<Word> {
        self.args.iter().map(|text| Word::read(text)).collect()
    }

    /// Returns whether a word is one of those that may not be there.
    pub fn is_absent(&self, word: &Word) -> bool {
        self.absent.iter().map(|text| Word::read(text)).any(|gone| match gone.value {
            None => gone.name == word.name,
            Some(_) => gone == *word,
        })
    }

    /// Returns the names of `args`, each once, in their order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for word in self.present() {
            if !names.contains(&word.name) {
                names.push(word.name);
            }
        }
        names
    }

    /// Compares a command line. Of several words of one name the last one counts, so what is declared of a name must
    /// stand at the end of them.
    pub fn lacks(&self, line: &str) -> Vec<Lack> {
        let found = words(line);
        let of = |words: &[Word], name: &str| -> Vec<Word> {
            words.iter().filter(|word| word.name == *name).cloned().collect()
        };
        let present = self.present();
        let mut lacks: Vec<Lack> = Vec::new();
        for name in self.names() {
            let (have, want) = (of(&found, &name), of(&present, &name));
            if !have.ends_with(&want) {
                lacks.push(Lack { have, want });
            }
        }
        let gone = found.iter().filter(|word| self.is_absent(word));
        lacks.extend(gone.map(|word| Lack { have: vec![word.clone()], want: Vec::new() }));
        lacks
    }
}

/// Characters that every place which carries a command line takes as they are: a shell's quotes, GRUB's script,
/// grubby's arguments.
fn check(word: &str) -> Result<(), Diag> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)) {
        return Err(bad_value(format!("`{word}` is not an argument of the kernel"))
            .hint("write one word each, like `iommu=pt` or `nosmt`"));
    }
    match value.chars().find(|c| !c.is_ascii_alphanumeric() && !"_.,:=+/@%-".contains(*c)) {
        None => Ok(()),
        Some(bad) => Err(bad_value(format!("the value of `{name}` holds `{}`", bad.escape_default()))
            .hint("boot loaders read such a character as their own: set this argument by hand")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        words(line).into_iter().map(|word| word.text).collect()
    }

    fn wanted(args: &[&str], absent: &[&str]) -> Wanted {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Wanted::new(own(args), own(absent)).unwrap()
    }

    fn lacks(args: &[&str], absent: &[&str], line: &str) -> Vec<String> {
        wanted(args, absent).lacks(line).iter().map(Lack::says).collect()
    }

    #[test]
    fn words_are_told_apart_as_the_kernel_does() {
        assert_eq!(
            texts("BOOT_IMAGE=/vmlinuz ro  dyndbg=\"file a.c +p\" rd.md-x=1 -- iommu=pt"),
            ["BOOT_IMAGE=/vmlinuz", "ro", "dyndbg=file a.c +p", "rd.md-x=1"]
        );
        assert_eq!(texts("ro $tuned_params a=\\\"b c\\\""), ["ro", "a=b c"]);
        assert_eq!(texts(""), Vec::<String>::new());
    }

    #[test]
    fn the_last_word_of_a_name_counts() {
        assert!(lacks(&["iommu=pt"], &[], "iommu=off iommu=pt").is_empty());
        assert_eq!(lacks(&["iommu=pt"], &[], "iommu=pt iommu=off"), ["`iommu=pt iommu=off` in place of `iommu=pt`"]);
        assert_eq!(
            lacks(&["iommu=pt", "nosmt"], &[], "iommu.passthrough=1"),
            ["`iommu=pt` is missing", "`nosmt` is missing"]
        );
        assert_eq!(lacks(&["nosmt"], &[], "nosmt=force"), ["`nosmt=force` in place of `nosmt`"]);
    }

    #[test]
    fn several_words_of_one_name_keep_their_order() {
        let both = ["console=tty0", "console=ttyS0,115200"];
        assert!(lacks(&both, &[], "console=hvc0 console=tty0 ro console=ttyS0,115200").is_empty());
        assert_eq!(
            lacks(&both, &[], "console=ttyS0,115200 console=tty0"),
            ["`console=ttyS0,115200 console=tty0` in place of `console=tty0 console=ttyS0,115200`"]
        );
    }

    #[test]
    fn absent_words_are_found_by_name_or_whole() {
        assert_eq!(lacks(&[], &["quiet", "iommu=soft"], "quiet iommu=pt"), ["`quiet` is there"]);
        assert_eq!(lacks(&[], &["nouveau.modeset"], "nouveau.modeset=1"), ["`nouveau.modeset=1` is there"]);
        assert_eq!(lacks(&["iommu=pt"], &["iommu=soft"], "iommu=soft iommu=pt"), ["`iommu=soft` is there"]);
    }

    #[test]
    fn words_are_checked() {
        let refused = |args: &[&str], absent: &[&str]| {
            let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
            Wanted::new(own(args), own(absent)).unwrap_err().message
        };
        assert_eq!(refused(&["iommu=pt nosmt"], &[]), "the value of `iommu` holds ` `");
        assert_eq!(refused(&["memmap=4G$12G"], &[]), "the value of `memmap` holds `$`");
        assert_eq!(refused(&["=1"], &[]), "`=1` is not an argument of the kernel");
        assert_eq!(refused(&["quiet"], &["quiet"]), "`quiet` is declared in `args` and in `absent`");
        assert_eq!(refused(&[], &[]), "neither `args` nor `absent` declares anything");
    }
}

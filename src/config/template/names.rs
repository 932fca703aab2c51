//! Static analysis of templates: finds the paths that a template reads, with their places, and its filters, tests and
//! calls.

use super::TemplateError;
use super::filters::{self, FUNCTIONS, MAPPING};
use super::nesting::FoldedLiterals;
use minijinja::machinery::ast::{self, CallArg, Expr, Stmt};
use std::collections::BTreeSet;
use std::ops::Range;

/// A root name that templates can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::config) enum TemplateRoot {
    Params,
    Vars,
    Recipes,
    Host,
    Hosts,
    Item,
    Key,
    Exports,
    Facts,
    /// Only in verifications of the cluster.
    Object,
    Objects,
}

impl TemplateRoot {
    pub const ALL: [TemplateRoot; 11] = [
        Self::Params,
        Self::Vars,
        Self::Recipes,
        Self::Host,
        Self::Hosts,
        Self::Item,
        Self::Key,
        Self::Exports,
        Self::Facts,
        Self::Object,
        Self::Objects,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Params => "params",
            Self::Vars => "vars",
            Self::Recipes => "recipes",
            Self::Host => "host",
            Self::Hosts => "hosts",
            Self::Item => "item",
            Self::Key => "key",
            Self::Exports => "exports",
            Self::Facts => "facts",
            Self::Object => "object",
            Self::Objects => "objects",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|root| root.name() == text)
    }
}

/// A path that a template reads: `params.version` or `recipes["nvidia-driver"].version`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct TemplateRead {
    pub root: TemplateRoot,
    /// Literal names below the root, up to the first computed one.
    pub path: Vec<String>,
    /// Byte range in the template.
    pub range: Range<usize>,
    /// Whether the template handles its absence (`is defined`, `default`).
    pub optional: bool,
}

/// The result of the analysis of a template.
#[derive(Clone, Debug, Default)]
pub(super) struct TemplateScan {
    pub reads: Vec<TemplateRead>,
    pub errors: Vec<TemplateError>,
    /// Whether it evaluates each element of a list.
    pub maps: bool,
    /// Whether it handles a missing name somewhere.
    pub lenient: bool,
    /// The error if it must not be compiled.
    pub refused: Option<TemplateError>,
}

/// Analyzes an expression.
pub(super) fn expression(expr: &Expr<'_>) -> TemplateScan {
    let mut walk = TemplateScanner::default();
    walk.expr(expr, false);
    walk.look
}

/// Analyzes a template.
pub(super) fn template(stmt: &Stmt<'_>) -> TemplateScan {
    let mut walk = TemplateScanner::default();
    walk.stmt(stmt);
    walk.look
}

/// Returns the expression of a template that consists of one expression: `{{ params.list }}`.
pub(super) fn sole_expression<'s, 'a>(stmt: &'s Stmt<'a>) -> Option<&'s Expr<'a>> {
    let Stmt::Template(template) = stmt else { return None };
    match template.children.as_slice() {
        [Stmt::EmitExpr(emit)] => Some(&emit.expr),
        _ => None,
    }
}

#[derive(Default)]
struct TemplateScanner {
    look: TemplateScan,
    /// Names that the template defines, by block.
    locals: Vec<BTreeSet<String>>,
    folded: FoldedLiterals,
}

impl TemplateScanner {
    fn stmts(&mut self, stmts: &[Stmt<'_>]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn block(&mut self, names: BTreeSet<String>, stmts: &[Stmt<'_>]) {
        self.locals.push(names);
        self.stmts(stmts);
        self.locals.pop();
    }

    fn stmt(&mut self, stmt: &Stmt<'_>) {
        match stmt {
            Stmt::Template(template) => self.block(BTreeSet::new(), &template.children),
            Stmt::EmitExpr(emit) => self.expr(&emit.expr, false),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => self.for_loop(each),
            Stmt::IfCond(cond) => {
                self.expr(&cond.expr, false);
                self.stmts(&cond.true_body);
                self.stmts(&cond.false_body);
            }
            Stmt::WithBlock(with) => self.with_block(with),
            Stmt::Set(set) => {
                self.expr(&set.expr, false);
                self.give(&set.target);
            }
            Stmt::SetBlock(set) => {
                set.filter.iter().for_each(|filter| self.expr(filter, false));
                self.stmts(&set.body);
                self.give(&set.target);
            }
            Stmt::FilterBlock(block) => {
                self.expr(&block.filter, false);
                self.stmts(&block.body);
            }
            Stmt::AutoEscape(block) => self.stmts(&block.body),
            Stmt::Do(call) => self.call(&call.call),
        }
    }

    fn for_loop(&mut self, each: &ast::ForLoop<'_>) {
        self.look.maps = true;
        self.expr(&each.iter, false);
        let mut names = targets(&each.target);
        names.insert("loop".to_owned());
        self.locals.push(names);
        each.filter_expr.iter().for_each(|filter| self.expr(filter, false));
        self.stmts(&each.body);
        self.locals.pop();
        self.stmts(&each.else_body);
    }

    fn with_block(&mut self, with: &ast::WithBlock<'_>) {
        let mut names = BTreeSet::new();
        for (target, value) in &with.assignments {
            self.expr(value, false);
            names.extend(targets(target));
        }
        self.block(names, &with.body);
    }

    /// Adds the names that a `set` defines to the current block.
    fn give(&mut self, target: &Expr<'_>) {
        let names = targets(target);
        match self.locals.last_mut() {
            Some(block) => block.extend(names),
            None => self.locals.push(names),
        }
    }

    fn expr(&mut self, expr: &Expr<'_>, optional: bool) {
        if let Some((root, path, dynamic)) = chain(expr) {
            return self.read(root, path, dynamic, span(expr), optional);
        }
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expr(&slice.expr, optional);
                [&slice.start, &slice.stop, &slice.step].into_iter().flatten().for_each(|part| self.expr(part, false));
            }
            Expr::UnaryOp(op) => self.expr(&op.expr, optional),
            Expr::BinOp(op) => {
                if let Err(error) = self.folded.count(expr) {
                    self.look.refused.get_or_insert(error);
                    return;
                }
                self.expr(&op.left, false);
                self.expr(&op.right, false);
            }
            Expr::Compare(compare) => {
                self.expr(&compare.expr, false);
                compare.ops.iter().for_each(|op| self.expr(&op.expr, false));
            }
            Expr::IfExpr(cond) => {
                self.expr(&cond.test_expr, false);
                self.expr(&cond.true_expr, false);
                cond.false_expr.iter().for_each(|other| self.expr(other, false));
            }
            Expr::Filter(filter) => self.filter(filter, span(expr)),
            Expr::Test(test) => self.test(test, span(expr)),
            Expr::GetAttr(attr) => self.expr(&attr.expr, optional),
            Expr::GetItem(item) => {
                self.expr(&item.expr, optional);
                self.expr(&item.subscript_expr, false);
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.items.iter().for_each(|item| self.expr(item, false)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.expr(item, false)),
            Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(|part| self.expr(part, false)),
        }
    }

    fn filter(&mut self, filter: &ast::Filter<'_>, range: Range<usize>) {
        if !filters::filters().any(|name| name == filter.name) {
            self.unknown("filter", filter.name, filters::filters(), range);
        }
        let default = matches!(filter.name, "default" | "d");
        self.look.lenient |= default || is_default_of_each(filter);
        self.look.maps |= MAPPING.contains(&filter.name);
        filter.expr.iter().for_each(|expr| self.expr(expr, default));
        self.args(&filter.args);
    }

    fn test(&mut self, test: &ast::Test<'_>, range: Range<usize>) {
        if !filters::tests().any(|name| name == test.name) {
            self.unknown("test", test.name, filters::tests(), range);
        }
        let defined = matches!(test.name, "defined" | "undefined");
        // A test of the type also handles other types.
        self.look.lenient |= matches!(test.name, "mapping" | "string" | "none");
        self.look.lenient |= defined;
        self.expr(&test.expr, defined);
        self.args(&test.args);
    }

    fn call(&mut self, call: &ast::Call<'_>) {
        match &call.expr {
            Expr::Var(var) if var.id == "table" => self.table(&call.args, span(&call.expr)),
            Expr::Var(var) if FUNCTIONS.contains(&var.id) => {}
            Expr::Var(var) => self.unknown("function", var.id, FUNCTIONS.iter().copied(), span(&call.expr)),
            Expr::GetAttr(attr) if matches!(&attr.expr, Expr::Var(var) if var.id == "loop") => {}
            other => {
                let error = TemplateError {
                    message: "method calls are not supported".into(),
                    range: Some(span(other)),
                    hint: Some("use a filter: `x | trim`".into()),
                    undefined: false,
                };
                self.look.errors.push(error);
            }
        }
        self.args(&call.args);
    }

    /// Checks a call of `table`. The name must be a literal, so that errors are found without a host.
    fn table(&mut self, args: &[CallArg<'_>], range: Range<usize>) {
        let names = || crate::config::shipped::tables().iter().map(|table| table.name);
        match args {
            [CallArg::Pos(Expr::Const(name))] if name.value.as_str().is_some() => {
                let name = name.value.as_str().unwrap_or_default();
                if !names().any(|known| known == name) {
                    self.unknown("table", name, names(), range);
                }
            }
            _ => self.look.errors.push(TemplateError {
                message: "`table` requires a literal name".into(),
                range: Some(range),
                hint: Some("write the name in quotes: `table(\"driver-branches\")`".into()),
                undefined: false,
            }),
        }
    }

    fn args(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            match arg {
                CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr) => {
                    self.expr(expr, false)
                }
            }
        }
    }

    fn read(&mut self, name: &str, path: Vec<String>, dynamic: Vec<&Expr<'_>>, range: Range<usize>, optional: bool) {
        dynamic.into_iter().for_each(|part| self.expr(part, false));
        if self.locals.iter().any(|block| block.contains(name)) {
            return;
        }
        match TemplateRoot::parse(name) {
            Some(root) => self.look.reads.push(TemplateRead { root, path, range, optional }),
            None => {
                let known = TemplateRoot::ALL.map(TemplateRoot::name);
                self.undefined(name, known, range);
            }
        }
    }

    fn undefined(&mut self, name: &str, known: [&str; 11], range: Range<usize>) {
        let hint = match crate::diag::did_you_mean(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use `params.{name}` for a parameter or `vars.{name}` for a variable"),
        };
        self.look.errors.push(TemplateError {
            message: format!("`{name}` does not exist"),
            range: Some(range),
            hint: Some(hint),
            undefined: true,
        });
    }

    fn unknown(&mut self, what: &str, name: &str, known: impl Iterator<Item = &'static str>, range: Range<usize>) {
        let hint = crate::diag::did_you_mean(name, known).map(|near| format!("did you mean `{near}`?"));
        self.look.errors.push(TemplateError {
            message: format!("unknown {what} `{name}`"),
            range: Some(range),
            hint,
            undefined: false,
        });
    }
}

/// Returns whether the filter is `map("default", …)`, which handles values that items lack.
fn is_default_of_each(filter: &ast::Filter<'_>) -> bool {
    let named = |arg: &CallArg<'_>| matches!(arg, CallArg::Pos(Expr::Const(name)) if matches!(name.value.as_str(), Some("default" | "d")));
    filter.name == "map" && filter.args.first().is_some_and(named)
}

fn targets(target: &Expr<'_>) -> BTreeSet<String> {
    match target {
        Expr::Var(var) => BTreeSet::from([var.id.to_owned()]),
        Expr::List(list) => list.items.iter().flat_map(targets).collect(),
        Expr::Tuple(tuple) => tuple.items.iter().flat_map(targets).collect(),
        _ => BTreeSet::new(),
    }
}

/// Splits a chain of names into its first name, the literal names after it, and the computed subscripts.
fn chain<'s, 'a>(expr: &'s Expr<'a>) -> Option<(&'a str, Vec<String>, Vec<&'s Expr<'a>>)> {
    match expr {
        Expr::Var(var) => Some((var.id, Vec::new(), Vec::new())),
        Expr::GetAttr(attr) => {
            let (root, mut path, dynamic) = chain(&attr.expr)?;
            push(&mut path, &dynamic, attr.name.to_owned());
            Some((root, path, dynamic))
        }
        Expr::GetItem(item) => {
            let (root, mut path, mut dynamic) = chain(&item.expr)?;
            match &item.subscript_expr {
                Expr::Const(name) if name.value.as_str().is_some() => {
                    push(&mut path, &dynamic, name.value.as_str().unwrap_or_default().to_owned())
                }
                other => dynamic.push(other),
            }
            Some((root, path, dynamic))
        }
        _ => None,
    }
}

/// Adds a name to the path, unless a computed subscript precedes it.
fn push(path: &mut Vec<String>, dynamic: &[&Expr<'_>], name: String) {
    if dynamic.is_empty() {
        path.push(name);
    }
}

fn span(expr: &Expr<'_>) -> Range<usize> {
    start(expr)..expr.span().end_offset as usize
}

/// Returns the start of a path, which is its first name. The engine reports the bracket as the start of a subscript.
fn start(expr: &Expr<'_>) -> usize {
    match expr {
        Expr::GetAttr(attr) => start(&attr.expr),
        Expr::GetItem(item) => start(&item.expr),
        other => other.span().start_offset as usize,
    }
}

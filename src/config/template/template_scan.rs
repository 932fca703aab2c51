//! Static analysis of templates: finds the paths that a template reads, with their places, and its filters, tests and
//! calls.

use super::TemplateError;
use super::filters::{self, ELEMENT_FILTERS, FUNCTION_NAMES};
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
    Members,
    Item,
    Key,
    Exports,
    Facts,
    /// Only in verifications of the cluster.
    Object,
    Objects,
}

impl TemplateRoot {
    pub const ALL: [TemplateRoot; 12] = [
        Self::Params,
        Self::Vars,
        Self::Recipes,
        Self::Host,
        Self::Hosts,
        Self::Members,
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
            Self::Members => "members",
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
    /// Literal names that it looks up in `host.groups`, with their byte range.
    pub groups: Vec<(String, Range<usize>)>,
    /// Whether it evaluates each element of a list.
    pub maps: bool,
    /// Whether it handles a missing name somewhere.
    pub lenient: bool,
    /// The error if it must not be compiled.
    pub refused: Option<TemplateError>,
}

/// Analyzes an expression.
pub(super) fn scan_expression(expr: &Expr<'_>) -> TemplateScan {
    let mut walk = TemplateScanner::default();
    walk.scan_expression(expr, false);
    walk.look
}

/// Analyzes a template.
pub(super) fn scan_template(stmt: &Stmt<'_>) -> TemplateScan {
    let mut walk = TemplateScanner::default();
    walk.scan_statement(stmt);
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
    fn scan_statements(&mut self, stmts: &[Stmt<'_>]) {
        stmts.iter().for_each(|stmt| self.scan_statement(stmt));
    }

    fn scan_block(&mut self, names: BTreeSet<String>, stmts: &[Stmt<'_>]) {
        self.locals.push(names);
        self.scan_statements(stmts);
        self.locals.pop();
    }

    fn scan_statement(&mut self, stmt: &Stmt<'_>) {
        match stmt {
            Stmt::Template(template) => self.scan_block(BTreeSet::new(), &template.children),
            Stmt::EmitExpr(emit) => self.scan_expression(&emit.expr, false),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => self.scan_for_loop(each),
            Stmt::IfCond(cond) => {
                self.scan_expression(&cond.expr, false);
                self.scan_statements(&cond.true_body);
                self.scan_statements(&cond.false_body);
            }
            Stmt::WithBlock(with) => self.scan_with_block(with),
            Stmt::Set(set) => {
                self.scan_expression(&set.expr, false);
                self.define_names(&set.target);
            }
            Stmt::SetBlock(set) => {
                set.filter.iter().for_each(|filter| self.scan_expression(filter, false));
                self.scan_statements(&set.body);
                self.define_names(&set.target);
            }
            Stmt::FilterBlock(block) => {
                self.scan_expression(&block.filter, false);
                self.scan_statements(&block.body);
            }
            Stmt::AutoEscape(block) => self.scan_statements(&block.body),
            Stmt::Do(call) => self.scan_call(&call.call),
        }
    }

    fn scan_for_loop(&mut self, each: &ast::ForLoop<'_>) {
        self.look.maps = true;
        self.scan_expression(&each.iter, false);
        let mut names = collect_target_names(&each.target);
        names.insert("loop".to_owned());
        self.locals.push(names);
        each.filter_expr.iter().for_each(|filter| self.scan_expression(filter, false));
        self.scan_statements(&each.body);
        self.locals.pop();
        self.scan_statements(&each.else_body);
    }

    fn scan_with_block(&mut self, with: &ast::WithBlock<'_>) {
        let mut names = BTreeSet::new();
        for (target, value) in &with.assignments {
            self.scan_expression(value, false);
            names.extend(collect_target_names(target));
        }
        self.scan_block(names, &with.body);
    }

    /// Adds the names that a `set` defines to the current block.
    fn define_names(&mut self, target: &Expr<'_>) {
        let names = collect_target_names(target);
        match self.locals.last_mut() {
            Some(block) => block.extend(names),
            None => self.locals.push(names),
        }
    }

    fn scan_expression(&mut self, expr: &Expr<'_>, optional: bool) {
        if let Some((root, path, dynamic)) = split_path(expr) {
            return self.record_read(root, path, dynamic, expression_range(expr), optional);
        }
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.scan_expression(&slice.expr, optional);
                [&slice.start, &slice.stop, &slice.step]
                    .into_iter()
                    .flatten()
                    .for_each(|part| self.scan_expression(part, false));
            }
            Expr::UnaryOp(op) => self.scan_expression(&op.expr, optional),
            Expr::BinOp(op) => {
                if let Err(error) = self.folded.add_operator(expr) {
                    self.look.refused.get_or_insert(error);
                    return;
                }
                self.note_group(&op.left, &op.right);
                self.scan_expression(&op.left, false);
                self.scan_expression(&op.right, false);
            }
            Expr::Compare(compare) => {
                compare.ops.iter().for_each(|op| self.note_group(&compare.expr, &op.expr));
                self.scan_expression(&compare.expr, false);
                compare.ops.iter().for_each(|op| self.scan_expression(&op.expr, false));
            }
            Expr::IfExpr(cond) => {
                self.scan_expression(&cond.test_expr, false);
                self.scan_expression(&cond.true_expr, false);
                cond.false_expr.iter().for_each(|other| self.scan_expression(other, false));
            }
            Expr::Filter(filter) => self.scan_filter(filter, expression_range(expr)),
            Expr::Test(test) => self.scan_test(test, expression_range(expr)),
            Expr::GetAttr(attr) => self.scan_expression(&attr.expr, optional),
            Expr::GetItem(item) => {
                self.scan_expression(&item.expr, optional);
                self.scan_expression(&item.subscript_expr, false);
            }
            Expr::Call(call) => self.scan_call(call),
            Expr::List(list) => list.items.iter().for_each(|item| self.scan_expression(item, false)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.scan_expression(item, false)),
            Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(|part| self.scan_expression(part, false)),
        }
    }

    /// Notes the name of `"web" in host.groups`.
    fn note_group(&mut self, item: &Expr<'_>, list: &Expr<'_>) {
        if let (Expr::Const(name), Some(("host", path, _))) = (item, split_path(list))
            && let (Some(name), ["groups"]) =
                (name.value.as_str(), &path.iter().map(String::as_str).collect::<Vec<_>>()[..])
        {
            self.look.groups.push((name.to_owned(), expression_range(item)));
        }
    }

    fn scan_filter(&mut self, filter: &ast::Filter<'_>, range: Range<usize>) {
        if !filters::filter_names().any(|name| name == filter.name) {
            self.report_unknown("filter", filter.name, filters::filter_names(), range);
        }
        let default = matches!(filter.name, "default" | "d");
        self.look.lenient |= default || is_default_of_each(filter);
        self.look.maps |= ELEMENT_FILTERS.contains(&filter.name);
        filter.expr.iter().for_each(|expr| self.scan_expression(expr, default));
        self.scan_arguments(&filter.args);
    }

    fn scan_test(&mut self, test: &ast::Test<'_>, range: Range<usize>) {
        if !filters::test_names().any(|name| name == test.name) {
            self.report_unknown("test", test.name, filters::test_names(), range);
        }
        let defined = matches!(test.name, "defined" | "undefined");
        // A test of the type also handles other types.
        self.look.lenient |= matches!(test.name, "mapping" | "string" | "none");
        self.look.lenient |= defined;
        self.scan_expression(&test.expr, defined);
        self.scan_arguments(&test.args);
    }

    fn scan_call(&mut self, call: &ast::Call<'_>) {
        match &call.expr {
            Expr::Var(var) if var.id == "table" => self.check_table_name(&call.args, expression_range(&call.expr)),
            Expr::Var(var) if FUNCTION_NAMES.contains(&var.id) => {}
            Expr::Var(var) => {
                self.report_unknown("function", var.id, FUNCTION_NAMES.iter().copied(), expression_range(&call.expr))
            }
            Expr::GetAttr(attr) if matches!(&attr.expr, Expr::Var(var) if var.id == "loop") => {}
            other => {
                let error = TemplateError {
                    message: "method calls are not supported".into(),
                    range: Some(expression_range(other)),
                    hint: Some("use a filter: `x | trim`".into()),
                    undefined: false,
                };
                self.look.errors.push(error);
            }
        }
        self.scan_arguments(&call.args);
    }

    /// Checks a call of `table`. The name must be a literal, so that errors are found without a host.
    fn check_table_name(&mut self, args: &[CallArg<'_>], range: Range<usize>) {
        let names = || crate::config::builtin_data::builtin_tables().iter().map(|table| table.name);
        match args {
            [CallArg::Pos(Expr::Const(name))] if name.value.as_str().is_some() => {
                let name = name.value.as_str().unwrap_or_default();
                if !names().any(|known| known == name) {
                    self.report_unknown("table", name, names(), range);
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

    fn scan_arguments(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            match arg {
                CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr) => {
                    self.scan_expression(expr, false)
                }
            }
        }
    }

    fn record_read(
        &mut self,
        name: &str,
        path: Vec<String>,
        dynamic: Vec<&Expr<'_>>,
        range: Range<usize>,
        optional: bool,
    ) {
        dynamic.into_iter().for_each(|part| self.scan_expression(part, false));
        if self.locals.iter().any(|block| block.contains(name)) {
            return;
        }
        match TemplateRoot::parse(name) {
            Some(root) => self.look.reads.push(TemplateRead { root, path, range, optional }),
            None => {
                let known = TemplateRoot::ALL.map(TemplateRoot::name);
                self.report_undefined(name, known, range);
            }
        }
    }

    fn report_undefined(&mut self, name: &str, known: [&str; TemplateRoot::ALL.len()], range: Range<usize>) {
        let hint = match crate::diag::did_you_mean(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None if matches!(name, "yes" | "no" | "on" | "off" | "Yes" | "No" | "On" | "Off" | "True" | "False") => {
                format!("YAML passes `{name}` as text, and an expression is expected: write `\"true\"` or `\"false\"`")
            }
            None => format!("use `params.{name}` for a parameter or `vars.{name}` for a variable"),
        };
        self.look.errors.push(TemplateError {
            message: format!("`{name}` does not exist"),
            range: Some(range),
            hint: Some(hint),
            undefined: true,
        });
    }

    fn report_unknown(
        &mut self,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'static str>,
        range: Range<usize>,
    ) {
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

fn collect_target_names(target: &Expr<'_>) -> BTreeSet<String> {
    match target {
        Expr::Var(var) => BTreeSet::from([var.id.to_owned()]),
        Expr::List(list) => list.items.iter().flat_map(collect_target_names).collect(),
        Expr::Tuple(tuple) => tuple.items.iter().flat_map(collect_target_names).collect(),
        _ => BTreeSet::new(),
    }
}

/// Splits a chain of names into its first name, the literal names after it, and the computed subscripts.
fn split_path<'s, 'a>(expr: &'s Expr<'a>) -> Option<(&'a str, Vec<String>, Vec<&'s Expr<'a>>)> {
    match expr {
        Expr::Var(var) => Some((var.id, Vec::new(), Vec::new())),
        Expr::GetAttr(attr) => {
            let (root, mut path, dynamic) = split_path(&attr.expr)?;
            push_name(&mut path, &dynamic, attr.name.to_owned());
            Some((root, path, dynamic))
        }
        Expr::GetItem(item) => {
            let (root, mut path, mut dynamic) = split_path(&item.expr)?;
            match &item.subscript_expr {
                Expr::Const(name) if name.value.as_str().is_some() => {
                    push_name(&mut path, &dynamic, name.value.as_str().unwrap_or_default().to_owned())
                }
                other => dynamic.push(other),
            }
            Some((root, path, dynamic))
        }
        _ => None,
    }
}

/// Adds a name to the path, unless a computed subscript precedes it.
fn push_name(path: &mut Vec<String>, dynamic: &[&Expr<'_>], name: String) {
    if dynamic.is_empty() {
        path.push(name);
    }
}

fn expression_range(expr: &Expr<'_>) -> Range<usize> {
    expression_start(expr)..expr.span().end_offset as usize
}

/// Returns the start of a path, which is its first name. The engine reports the bracket as the start of a subscript.
fn expression_start(expr: &Expr<'_>) -> usize {
    match expr {
        Expr::GetAttr(attr) => expression_start(&attr.expr),
        Expr::GetItem(item) => expression_start(&item.expr),
        other => other.span().start_offset as usize,
    }
}

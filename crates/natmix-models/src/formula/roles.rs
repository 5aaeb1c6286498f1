//! Formulas made from the roles of columns, and what a formula needs of a model.

use super::syntax::{Argument, Expr, Node, quoted};
use super::{Formula, FormulaError};
use crate::design::DesignOptions;

impl Formula {
    /// All columns as main effects of an outcome: `y | trials(n) ~ . + offset(z)`. The weights stand beside a formula.
    pub fn of_roles(roles: &DesignOptions, trials: Option<&str>, event: Option<&str>) -> Result<Formula, FormulaError> {
        let mut text = quoted(roles.outcome.as_deref().unwrap_or_default());
        for (function, column) in [("trials", trials), ("event", event)] {
            text += &column.map_or_else(String::new, |column| format!(" | {function}({})", quoted(column)));
        }
        text += if roles.intercept { " ~ ." } else { " ~ 0 + ." };
        text += &roles.offset.as_deref().map_or_else(String::new, |column| format!(" + offset({})", quoted(column)));
        let exposure = roles.exposure.as_deref();
        text += &exposure.map_or_else(String::new, |column| format!(" + offset(log({}))", quoted(column)));
        Formula::parse(&text)
    }

    /// Whether coefficients vary over groups, or a smooth is among its terms.
    pub fn has_varying(&self) -> bool {
        fn varies(expr: &Expr) -> bool {
            match &expr.node {
                Node::Varying { .. } => true,
                Node::Call { function, .. } => function == "s",
                Node::Chain { first, rest } => varies(first) || rest.iter().any(|(_, part)| varies(part)),
                Node::Negative(of) => varies(of),
                Node::Power(base, _) => varies(base),
                _ => false,
            }
        }
        varies(&self.terms)
    }

    /// The same with the different numbers of its outcome, if that is a column, as categories.
    pub(crate) fn with_ordered_outcome(&self) -> Formula {
        let mut formula = self.clone();
        if let Some(Expr { node: node @ Node::Column(_), span }) = &mut formula.response {
            let value = Expr { node: node.clone(), span: *span };
            *node = Node::Call { function: "factor".into(), arguments: vec![Argument { name: None, value }] };
        }
        formula
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_make_formulas() {
        let roles = |outcome: &str| DesignOptions { outcome: Some(outcome.into()), ..DesignOptions::default() };
        let shown = |roles: &DesignOptions, trials, event| Formula::of_roles(roles, trials, event).unwrap().to_string();
        assert_eq!(shown(&roles("y"), None, None), "y ~ .");
        let all = DesignOptions {
            offset: Some("my offset".into()),
            exposure: Some("days".into()),
            intercept: false,
            ..roles("sick days")
        };
        assert_eq!(
            shown(&all, Some("n"), None),
            "`sick days` | trials(n) ~ 0 + . + offset(`my offset`) + offset(log(days))"
        );
        assert_eq!(shown(&roles("t"), None, Some("seen")), "t | event(seen) ~ .");
        for (text, varies) in
            [("y ~ x", false), ("y ~ s(x)", true), ("y ~ x + (1 | g)", true), ("y ~ poly(x, 2) * g", false)]
        {
            assert_eq!(Formula::parse(text).unwrap().has_varying(), varies, "{text}");
        }
        assert_eq!(Formula::parse("y ~ x").unwrap().with_ordered_outcome().to_string(), "factor(y) ~ x");
    }
}

//! Which categories need a column for every level, and which for all but the reference.
//!
//! The columns of all levels of a category sum to 1, so beside an intercept one of them is superfluous. The rule is that of patsy
//! and formulaic: write each category as "without the reference" plus "constant", multiply out every term, leave out the products that
//! terms before it have, and join what is left wherever "without the reference" and "constant" stand side by side:
//! `(anything):(without) + (anything)` is `(anything):(all levels)`.

use super::terms::Term;
use std::collections::HashSet;

/// Most categories in one term: the products number two to the power of these.
pub(super) const MOST_CATEGORIES: usize = 8;

/// A factor within a term, and whether it goes without its reference level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ranked {
    pub factor: usize,
    pub reduced: bool,
}

type Product = Vec<Ranked>;

/// The products of columns that each term needs; `is_category` says which factors are categories. Terms have at most
/// [`MOST_CATEGORIES`] of them.
pub(super) fn products(terms: &[Term], is_category: impl Fn(usize) -> bool) -> Vec<Vec<Product>> {
    let mut spanned = HashSet::new();
    let mut of_term = |term: &Term| {
        let new: Vec<Product> =
            multiplied_out(term, &is_category).into_iter().filter(|product| spanned.insert(key(product))).collect();
        joined(new)
    };
    terms.iter().map(&mut of_term).collect()
}

/// Two products are the same if they have the same factors in any order.
fn key(product: &Product) -> Product {
    let mut key = product.clone();
    key.sort_unstable();
    key
}

fn multiplied_out(term: &Term, is_category: &impl Fn(usize) -> bool) -> Vec<Product> {
    let mut products = vec![Vec::new()];
    for &factor in term {
        let reduced = is_category(factor);
        products = products
            .into_iter()
            .flat_map(|product: Product| {
                let mut with = product.clone();
                with.push(Ranked { factor, reduced });
                std::iter::once(with).chain(reduced.then_some(product))
            })
            .collect();
    }
    products
}

/// Joins products from the shortest on, starting anew after each join, since it may make room for another.
fn joined(mut products: Vec<Product>) -> Vec<Product> {
    products.sort_by_key(Vec::len);
    let mut done: Vec<Product> = Vec::new();
    for product in products {
        let partner = done.iter().enumerate().find_map(|(at, other)| {
            if other.len() + 1 != product.len() {
                return None;
            }
            let mut missing = product.iter().filter(|factor| !other.contains(factor));
            match (missing.next(), missing.next()) {
                (Some(one), None) if one.reduced => Some((at, *one)),
                _ => None,
            }
        });
        match partner {
            None if done.iter().any(|other| key(other) == key(&product)) => {}
            None => done.push(product),
            Some((at, one)) => {
                done.remove(at);
                let full = |factor: &Ranked| Ranked { reduced: factor.reduced && *factor != one, ..*factor };
                let product: Product = product.iter().map(full).collect();
                done.push(product);
                done = joined(done);
            }
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products of letters: capitals are numbers, others categories; `a-` goes without its reference.
    fn shown(terms: &[&str]) -> Vec<String> {
        let terms: Vec<Term> = terms.iter().map(|term| term.bytes().map(usize::from).collect()).collect();
        let is_category = |factor: usize| (factor as u8).is_ascii_lowercase();
        let product = |product: &Product| -> String {
            let factor = |f: &Ranked| format!("{}{}", f.factor as u8 as char, if f.reduced { "-" } else { "" });
            if product.is_empty() { "1".into() } else { product.iter().map(factor).collect() }
        };
        let term = |products: &Vec<Product>| products.iter().map(product).collect::<Vec<_>>().join(" + ");
        products(&terms, is_category).iter().map(term).collect()
    }

    #[test]
    fn categories_go_without_their_reference_where_it_is_spanned() {
        assert_eq!(shown(&["", "a", "b", "ab"]), ["1", "a-", "b-", "a-b-"]);
        assert_eq!(shown(&["a", "b"]), ["a", "b-"]);
        assert_eq!(shown(&["", "ab"]), ["1", "b- + a-b"]);
        assert_eq!(shown(&["", "a", "ab"]), ["1", "a-", "ab-"]);
        assert_eq!(shown(&["ab"]), ["ab"]);
        assert_eq!(shown(&["", "X", "aX"]), ["1", "X", "a-X"]);
        assert_eq!(shown(&["", "aX"]), ["1", "aX"]);
        assert_eq!(shown(&["", "a", "b", "c", "abc"]), ["1", "a-", "b-", "c-", "a-c- + b-c- + a-b-c"]);
    }
}

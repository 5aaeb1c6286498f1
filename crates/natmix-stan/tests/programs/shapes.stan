// Every kind of constraint, arrays and matrices; no data.
parameters {
  ordered[3] o;
  positive_ordered[2] q;
  simplex[3] share;
  unit_vector[2] direction;
  cholesky_factor_corr[3] L;
  corr_matrix[2] C;
  cov_matrix[2] S;
  array[2, 3] real a;
  matrix[2, 3] m;
  array[2] vector<lower=0>[2] v;
  real<offset=3, multiplier=2> x;
}
transformed parameters {
  matrix[3, 3] R = multiply_lower_tri_self_transpose(L);
}
model {
  if (x > 100) {
    reject("x is too large: ", x);
  }
  o ~ normal(0, 1);
  q ~ exponential(1);
  share ~ dirichlet([2, 3, 4]');
  L ~ lkj_corr_cholesky(2);
  C ~ lkj_corr(3);
  S ~ inv_wishart(7, identity_matrix(2));
  to_array_1d(a) ~ normal(1, 2);
  to_vector(m) ~ normal(-1, 0.5);
  for (i in 1 : 2) {
    v[i] ~ lognormal(0, 1);
  }
  x ~ normal(3, 2);
}
generated quantities {
  array[2, 2] vector[3] g;
  for (i in 1 : 2) {
    for (j in 1 : 2) {
      g[i, j] = share * (10 * i + j);
    }
  }
  real u = uniform_rng(0, 1);
  complex z = to_complex(x, 2);
  tuple(real, vector[2]) pair = (x, direction);
}

// Linear regression of test scores on a factor with four levels.
data {
  int<lower=0> N;
  vector[N] kid_score;
  array[N] int<lower=1, upper=4> mom_work;
}
transformed data {
  matrix[N, 3] level = rep_matrix(0, N, 3);
  for (n in 1 : N) {
    if (mom_work[n] > 1) {
      level[n, mom_work[n] - 1] = 1;
    }
  }
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  kid_score ~ normal_id_glm(level, beta[1], beta[2 : 4], sigma);
}

// Logistic regression of the change of a well on the distance of another.
data {
  int<lower=0> N;
  vector[N] dist;
  array[N] int<lower=0, upper=1> switched;
}
transformed data {
  matrix[N, 1] predictor = to_matrix(dist);
}
parameters {
  vector[2] beta;
}
model {
  switched ~ bernoulli_logit_glm(predictor, beta[1], beta[2 : 2]);
}

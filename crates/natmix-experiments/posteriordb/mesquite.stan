// Linear regression of the weight of mesquite leaves.
data {
  int<lower=0> N;
  vector[N] weight;
  vector[N] diam1;
  vector[N] diam2;
  vector[N] canopy_height;
  vector[N] total_height;
  vector[N] density;
  vector[N] group;
}
transformed data {
  matrix[N, 6] predictors;
  predictors[ : , 1] = diam1;
  predictors[ : , 2] = diam2;
  predictors[ : , 3] = canopy_height;
  predictors[ : , 4] = total_height;
  predictors[ : , 5] = density;
  predictors[ : , 6] = group;
}
parameters {
  vector[7] beta;
  real<lower=0> sigma;
}
model {
  weight ~ normal_id_glm(predictors, beta[1], beta[2 : 7], sigma);
}

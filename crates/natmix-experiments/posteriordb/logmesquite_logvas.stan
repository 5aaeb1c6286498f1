// The same with volume, area and shape of the canopy.
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
  vector[N] outcome = log(weight);
  predictors[ : , 1] = log(diam1 .* diam2 .* canopy_height);
  predictors[ : , 2] = log(diam1 .* diam2);
  predictors[ : , 3] = log(diam1 ./ diam2);
  predictors[ : , 4] = log(total_height);
  predictors[ : , 5] = log(density);
  predictors[ : , 6] = group;
}
parameters {
  vector[7] beta;
  real<lower=0> sigma;
}
model {
  outcome ~ normal_id_glm(predictors, beta[1], beta[2 : 7], sigma);
}

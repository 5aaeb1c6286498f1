// Two states; in each the observations are normal with standard deviation one.
functions {
  // Log likelihood of a hidden Markov model with two states, of which both have weight one at first, from log densities of all
  // observations in each state and the rows of the transition matrix. Carried on are the log odds of the first state.
  real two_states(vector first, vector second, vector theta1, vector theta2) {
    int N = size(first);
    real to_first = log(theta1[1]) - log(theta2[1]);
    real to_second = log(theta1[2]) - log(theta2[2]);
    vector[N] gain = first - second + log(theta2[1]) - log(theta2[2]);
    real odds = first[1] - second[1];
    vector[N - 1] total;
    for (t in 2 : N) {
      total[t - 1] = log1p_exp(odds + to_second);
      odds = log1p_exp(odds + to_first) - total[t - 1] + gain[t];
    }
    return sum(second) + sum(total) + (N - 1) * log(theta2[2]) + log1p_exp(odds);
  }
}
data {
  int<lower=1> N;
  int<lower=2, upper=2> K;
  vector[N] y;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  positive_ordered[K] mu;
}
model {
  array[K] vector[N] emission;
  for (k in 1 : K) {
    emission[k] = -0.5 * square(y - mu[k]);
  }
  mu ~ normal([3, 10], 1);
  target += -0.5 * N * log(2 * pi());
  target += two_states(emission[1], emission[2], theta1, theta2);
}

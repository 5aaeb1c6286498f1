real count_lpmf(int y, real rate, real p) {
  return log_mix(p, poisson_lpmf(y | rate + 1), poisson_lpmf(y | 0.5));
}

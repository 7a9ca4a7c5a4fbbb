// Package firststeps has no code. Its tests do what a new user does: they apply the examples and run the commands of
// the documentation exactly as they are printed, on hosts of the lab. They may import the lab.
package firststeps

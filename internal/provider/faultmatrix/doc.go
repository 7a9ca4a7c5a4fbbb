// Package faultmatrix has the tests that let a fault hit an operation, for the guides "Fault matrix": one test for each
// operation, with a case for each fault. Each case says what the interrupted apply prints, what the next plan says, and
// that the next apply ends in an empty plan. Guests have no kernel if their activity doesn't matter.
//
// The text of the guides is in internal/faults, which names these tests. Tests of other packages prove further cells.
package faultmatrix

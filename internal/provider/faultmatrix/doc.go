// Package faultmatrix has the tests that let a fault hit an operation, for the guides "Fault matrix": one test for each
// operation, with a case for each fault. Each case says what the apply prints that is hit, what the next plan says, and
// that the next apply ends in an empty plan. The guests need no kernel where what they do doesn't matter.
//
// What the guides say is in internal/faults, which names these tests. Tests of other packages prove further cells.
package faultmatrix

// Package faults is the fault matrix: what an operator sees, what the next plan says and what the next apply does when
// a fault comes during an operation, and the test that proves it. The guides "Fault matrix" are generated from it.
//
// It imports nothing of the project. Its tests read the source of the tests that it names.
package faults

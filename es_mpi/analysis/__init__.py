"""The papers' analyses of trained weights and of sigma, each with the control that tells a finding from an artefact."""

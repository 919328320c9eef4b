// Inputs and outputs as a model's configuration declares them, held against what its file has, and
// turned into each other.
#pragma once
#include <string>

#include "config/declared.h"
#include "runtime/backend.h"
#include "tensor/tensor.h"

namespace gradus::serving {

/// Why the model's file is not what is declared, for one line; "": it is.
std::string contradiction(const config::Declared& declared, const runtime::Signature& signature);

/// The signature as clients see it.
runtime::Signature shown_signature(const config::Declared& declared,
                                   const runtime::Signature& signature);

/// Whether the first dimension of every input and output is the batch's: as declared; where nothing
/// is, if all are variable.
/// @param shown as clients see it
bool is_batched(const config::Declared& declared, const runtime::Signature& shown);

/// The declaration of that name; null: there is none.
const config::DeclaredTensor* find_declared(const std::vector<config::DeclaredTensor>& tensors,
                                            const std::string& name);

/// A shape of as many elements, where the tensor is declared with a `reshape`.
/// @param shape what a client sent, and fits the declaration
Shape model_shape(const config::Declared& declared, const config::DeclaredTensor& tensor,
                  const Shape& shape);
/// The other way round, for an output; the same where it does not fit.
Shape client_shape(const config::Declared& declared, const config::DeclaredTensor& tensor,
                   const Shape& shape);

}  // namespace gradus::serving

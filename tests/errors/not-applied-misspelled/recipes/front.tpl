port {{ recipes["back"].port }} {{ exports["back"].token }}
